#include "results/export/bundle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "results/export/cells.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* no_text = "cannot be read";

std::string environment_json(const std::string& report_text) {
  const Json report = Json::parse(report_text);
  Json environment = {{"program", report.at("program")}, {"context", report.at("context")}};
  if (const Json parts = report.value("parts", Json()); parts.is_array())
    for (const Json& part : parts)
      environment["earlier_launches"].push_back({{"program", part.at("program")}, {"context", part.at("context")}});
  return environment.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Every line repeats the names: a short file with a long one must not become a huge table.
constexpr std::size_t largest_power_csv = std::size_t{256} << 20;

std::string power_csv(const Report& report) {
  std::string out = "record,trial,host,domain,quantity,time_s,minimum,mean,maximum\r\n";
  for (const Record& record : report.records)
    for (std::size_t t = 0; t < record.trials.size(); ++t)
      for (const SeriesRow& row : record.trials[t].series) {
        if (row.time_s.empty()) continue;
        const std::string head = fmt::format("{},{},{},{},{}", cells::text(record.id), t + 1, cells::text(row.host),
                                             cells::text(row.domain), cells::text(row.quantity));
        const auto cell = [](const std::vector<double>& values, std::size_t i) {
          return i < values.size() ? cells::number(values[i]) : "";
        };
        for (std::size_t i = 0; i < row.time_s.size(); ++i) {
          out += fmt::format("{},{},{},{},{}\r\n", head, cells::number(row.time_s[i]), cell(row.minimum, i),
                             cell(row.mean, i), cell(row.maximum, i));
          if (out.size() > largest_power_csv)
            throw std::runtime_error(
                fmt::format("its series make a table of more than {} MiB", largest_power_csv >> 20));
        }
      }
  return out;
}

std::string readme(const Report& raw, const std::vector<std::string>& forced_over, const BundleFiles& run) {
  const Report report = printable(raw);
  std::map<std::string, int> verdicts;
  for (const Record& record : report.records) ++verdicts[to_string(record.verdict.status)];
  std::vector<std::string> hosts, counts;
  for (const HostInfo& host : report.context.hosts) hosts.push_back(host.name);
  for (const auto& [status, count] : verdicts) counts.push_back(fmt::format("{} {}", count, status));
  const Program& p = report.program;
  std::string out = "An offer, measured with trainwatt\n\n";
  const auto line = [&](const char* label, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:<12}{}\n", label, text);
  };
  line("program", fmt::format("{} {} ({})", p.name, p.version, p.git_commit));
  line("suite", report.plan.suite);
  line("plan", "SHA-256 " + sha256_hex(raw.plan.canonical_json));
  if (report.plan.kit)
    line("kit",
         (report.plan.kit->title.empty() ? "" : report.plan.kit->title + ", ") + "SHA-256 " + report.plan.kit->sha256);
  line("hosts", text::join(hosts, ", "));
  line("run", report.context.started_at + " to " +
                  (report.context.finished_at.empty() ? "an end that is not recorded" : report.context.finished_at));
  line("records", fmt::format("{}: {}", report.records.size(), fmt::join(counts, ", ")));
  if (!forced_over.empty())
    out += fmt::format(
        "\nThis bundle was made by --force: its report breaks {} rule{} of its own format, see bundle.json.\n",
        forced_over.size(), forced_over.size() == 1 ? "" : "s");
  out += "\nFiles\n";
  const auto file = [&](const char* name, const char* what) { out += fmt::format("  {:<18}{}\n", name, what); };
  file(report_file, "the report: context, plan, every record with its raw samples, verdicts");
  if (run.contains(records_file)) file(records_file, "the records, each as it was written when its point had ended");
  if (run.contains(run_file)) file(run_file, "how the run was started");
  file(power_file, "power, temperatures and clocks along each trial, for a spreadsheet");
  file(environment_file, "hosts, devices, versions, meters: the report's context on its own");
  file(bundle_file, "the program that made this bundle");
  file(sums_file, "SHA-256 of all files");
  out +=
      "\nChecking\n"
      "  trainwatt validate OFFER.tar.zst                names altered files, recomputes every figure from\n"
      "                                                  the raw samples, and lists the run rules that are broken\n"
      "  trainwatt validate OFFER.tar.zst --kit KIT.json also compares the run with your kit\n"
      "  trainwatt show OFFER.tar.zst                    prints the report\n"
      "  sha256sum -c SHA256SUMS                         checks the files alone, unpacked, without trainwatt\n"
      "  ssh-keygen -Y verify -n trainwatt -f SIGNERS -I NAME -s SHA256SUMS.sig < SHA256SUMS\n"
      "                                                  checks the signature, if there is one\n"
      "\nChecksums show what was changed after the bundle was made. They do not show what was changed before, nor\n"
      "that all of it was fabricated consistently: a signature shows who vouches for it, a repetition of the run\n"
      "in your presence shows whether it is true.\n";
  return out;
}

bool has_sum(const std::string& name) { return name != sums_file && name != signature_file; }

/// Collects what one file breaks.
class Check {
 public:
  explicit Check(const BundleFiles& files) : files_(files) {}

  Validation all() {
    found_.violations = checksum_faults(files_);
    if (!files_.contains(report_file)) {
      broken(report_file, "file_missing", "is missing: not a bundle of a run");
      return std::move(found_);
    }
    const std::string& text = files_.at(report_file);
    Validation report = validate_report(text);
    for (Fault& fault : report.violations) found_.violations.push_back(in_file(report_file, std::move(fault)));
    for (Fault& note : report.warnings) found_.warnings.push_back(in_file(report_file, std::move(note)));
    found_.missing_fields = std::move(report.missing_fields), found_.left_out_flags = std::move(report.left_out_flags);
    try {
      report_ = report_from_json(text, UnknownNames::left_out);
    } catch (const std::runtime_error&) {
      return std::move(found_);  // said above
    }
    check_bundle();
    // A metered command leaves none: its report is all there is.
    const bool has_records = !std::ranges::all_of(report_.records, is_command);
    check_file(records_file, !has_records, [&](const std::string& lines) { check_records(lines); });
    check_file(run_file, true, [&](const std::string& start) { check_start(start); });
    const auto same = [&](const char* name, auto derive) {
      check_file(name, false, [&](const std::string& its) {
        if (its != derive()) broken(name, "file_differs", "contradicts report.json");
      });
    };
    same(power_file, [&] { return power_csv(report_); });
    same(environment_file, [&] { return environment_json(text); });
    return std::move(found_);
  }

 private:
  void broken(const std::string& file, const char* code, const std::string& what, const std::string& where = "") {
    found_.violations.push_back({code, where, what, file});
  }

  void check_file(const char* name, bool may_miss, auto work) {
    const auto file = files_.find(name);
    if (file == files_.end()) {
      if (may_miss)
        found_.warnings.push_back(
            {"file_missing", "", "is not in the bundle, so report.json was not compared with it", name});
      else
        broken(name, "file_missing", "is missing");
      return;
    }
    try {
      work(file->second);
    } catch (const std::runtime_error& error) {
      broken(name, "unreadable", std::string(no_text) + ": " + error.what());
    } catch (const Json::exception&) {  // of a report that breaks its schema
      broken(name, "unreadable", "cannot be compared with report.json");
    }
  }

  void check_bundle() {
    check_file(bundle_file, false, [&](const std::string& text) {
      if (const std::string fault = json_fault(text); !fault.empty())
        return broken(bundle_file, "not_json", "not JSON: " + fault);
      const Json json = Json::parse(text);
      const Json version = json.is_object() ? json.value("bundle_version", Json()) : Json();
      if (const std::string why =
              version_obstacle(version.is_string() ? version.get<std::string>() : "", bundle_version);
          !why.empty())
        return broken(bundle_file, "bundle_version", why, "/bundle_version");
      const Json forced = json.value("forced_over", Json());
      if (!forced.is_array()) return broken(bundle_file, "schema", "is no list", "/forced_over");
      for (const Json& line : forced)
        found_.warnings.push_back(
            {"bundle_forced", "",
             "was made with --force over: " + (line.is_string() ? line.get<std::string>() : line.dump()), bundle_file});
    });
  }

  void check_records(const std::string& text) {
    const RecordLines lines = record_lines(text, UnknownNames::left_out);
    if (lines.torn) broken(records_file, "last_line_torn", "the last line was cut off");
    std::map<std::string, const Record*> by_id;
    for (const Record& record : report_.records) by_id[record.id] = &record;
    std::set<std::string> seen;
    for (const Record& record : lines.records) {
      seen.insert(record.id);
      const auto its = by_id.find(record.id);
      if (its == by_id.end())
        broken(records_file, "file_differs", "\"" + record.id + "\" is not in report.json");
      else if (to_json_line(record) != to_json_line(*its->second))
        broken(records_file, "file_differs", "\"" + record.id + "\" differs from report.json");
    }
    for (const Record& record : report_.records)
      if (!seen.contains(record.id))
        broken(records_file, "file_differs", "\"" + record.id + "\" of report.json is missing");
  }

  void check_start(const std::string& text) {
    const RunStart start = run_start_from_json(text);
    const auto same = [&](const char* what, bool is) {
      if (!is) broken(run_file, "file_differs", "is not that of report.json", std::string("/") + what);
    };
    same("plan", start.plan.canonical_json == report_.plan.canonical_json);
    same("program",
         start.program.version == report_.program.version && start.program.git_commit == report_.program.git_commit);
    same("context/launch", start.context.launch == report_.context.launch);
    same("context/started_at", start.context.started_at == report_.context.started_at);
  }

  const BundleFiles& files_;
  Report report_;
  Validation found_;
};

}  // namespace

BundleFiles make_bundle(BundleFiles run, const std::vector<std::string>& forced_over) {
  const std::string& text = run.at(report_file);
  const Report report = report_from_json(text);
  BundleFiles files = run;
  files[power_file] = power_csv(report);
  files[environment_file] = environment_json(text);
  files[bundle_file] = bundle_json(forced_over);
  files[readme_file] = readme(report, forced_over, run);
  files[sums_file] = checksums(files);
  return files;
}

std::string bundle_json(const std::vector<std::string>& forced_over, std::optional<std::size_t> runs) {
  const Program program = program_info("trainwatt");
  Json json = {
      {"bundle_version", bundle_version},
      {"program", {{"name", program.name}, {"version", program.version}, {"git_commit", program.git_commit}}}};
  if (runs) json["runs"] = *runs;
  json["forced"] = !forced_over.empty(), json["forced_over"] = forced_over;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string checksums(const BundleFiles& files) {
  std::string out;
  for (const auto& [name, bytes] : files)
    if (has_sum(name)) out += sha256_hex(bytes) + "  " + name + "\n";
  return out;
}

std::vector<Fault> checksum_faults(const BundleFiles& files) {
  const auto sums = files.find(sums_file);
  if (sums == files.end()) return {{"file_missing", "", "is missing", sums_file}};
  std::vector<Fault> faults;
  std::map<std::string, std::string> listed;
  std::istringstream lines(sums->second);
  constexpr std::size_t digits = 64, name_at = digits + 2;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() <= name_at || line.compare(digits, 2, "  ") != 0 ||
        line.find_first_not_of("0123456789abcdef") != digits ||
        !listed.emplace(line.substr(name_at), line.substr(0, digits)).second)
      return {{"unreadable", "", "is not what sha256sum writes", sums_file}};
  }
  for (const auto& [name, sum] : listed) {
    const auto file = files.find(name);
    if (!has_sum(name))
      faults.push_back({"file_listed", "", "lists " + name, sums_file});
    else if (file == files.end())
      faults.push_back({"file_missing", "", "is missing, although SHA256SUMS lists it", name});
    else if (sha256_hex(file->second) != sum)
      faults.push_back({"file_altered", "", "was altered: its SHA-256 differs from SHA256SUMS", name});
  }
  for (const auto& [name, bytes] : files)
    if (has_sum(name) && !listed.contains(name))
      faults.push_back({"file_added", "", "was added: SHA256SUMS does not list it", name});
  return faults;
}

Validation validate_bundle(const BundleFiles& files) { return Check(files).all(); }

}  // namespace tw::results
