// How old a report is, by its schema_version and by nothing else. The required fields of the schema are those of its
// first version; one that came later has "since": "1.1" beside its description, is optional in
// results/record/record.hpp, and "needed_by" lists the compared figures (compared_figures()) that mean something else
// without it.
#pragma once

#include <string>
#include <vector>

namespace tw::results {

/// A field that a report lacks because it is of an older minor version than the field.
struct MissingField {
  std::string pointer, since;        ///< "/records/0/trials/0/clock_skew_s", "1.1"
  std::vector<std::string> figures;  ///< of compared_figures(), that need it
};

/// What to hold a document of an older or a newer minor version against.
struct SchemaOfAge {
  std::string text;                          ///< the schema without what is not asked of that version
  std::vector<MissingField> missing_fields;  ///< required by `schema`, later than `version`, and not in the document
};
/// `version`: the document's, "1.0", which can be read with `known`, the schema's. Of an older one a later field may be
/// missing; a newer one may have any other fields.
SchemaOfAge schema_of_age(const std::string& document, const std::string& schema, const std::string& version,
                          const std::string& known);

}  // namespace tw::results
