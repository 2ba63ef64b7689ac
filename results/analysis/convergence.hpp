// The reference curves of results/reference/convergence, compiled in: how the tasks converge in an independent
// framework, in float32 (scripts/oracle/converge.py makes them).
#pragma once

#include <string>

#include "results/record/record.hpp"

namespace tw::results {

/// Fills target.reference from the curve of the same task, network, recipe, batch and evaluation, at target.value; or
/// target.reference_reason where there is none. Networks with batch norm have a curve for each micro-batch.
///
/// The band is for the mean of `runs` runs. Where these scatter as the reference's n seeds do, it leaves
///   mean ± t · sd · √(1/n + 1/runs),  t: Student's, n − 1 degrees of freedom,
/// by chance in 1 case of 200, so that of a suite of eight points one is wrongly found off in 1 case of 25. It is no
/// narrower than an evaluation interval on either side, to which steps are known.
void find_reference(Target& target, const Workload& workload, int runs);
/// The same with the text of a task's file; empty: there is none.
void find_reference(Target& target, const Workload& workload, int runs, const std::string& curves);

/// What a reader finds of the reference that a record brings along, whichever program it names: a band may be anything
/// there, and a wide one would hide that the run was `off_reference`.
struct ReferenceFinding {
  std::string fault;  ///< it is another than this version's; or it is none, and the runs lie outside this version's
  std::string note;   ///< this version has none to hold it against; or it is none, and the runs lie inside
};
/// Both empty if the record's is this version's, where neither has one, or where nothing was run.
ReferenceFinding check_reference(const Record& record);
/// The same with the text of a task's file.
ReferenceFinding check_reference(const Record& record, const std::string& curves);

/// The file of a task as text; empty: there is none.
std::string convergence_json(const std::string& task);

}  // namespace tw::results
