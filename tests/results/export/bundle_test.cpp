#include "results/export/bundle.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/results/golden.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using testing::sample_report;

BundleFiles run_of(const Report& report) {
  std::string lines;
  for (const Record& record : report.records) lines += to_json_line(record) + "\n";
  return {{report_file, to_json(report)},
          {records_file, lines},
          {run_file, to_json(RunStart{report.program, report.context, report.plan, {}, "", {}, {}})}};
}

std::string all(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) text += fault_line(fault) + "\n";
  return text;
}

void expect_said(const BundleFiles& files, const std::string& what) {
  const std::string said = all(validate_bundle(files).violations);
  EXPECT_NE(said.find(what), std::string::npos) << what << " not in:\n" << said;
}

TEST(Bundle, IsGoodAsItWasMade) {
  const BundleFiles files = make_bundle(run_of(sample_report()), {});
  const Validation found = validate_bundle(files);
  EXPECT_EQ(all(found.violations), "");
  EXPECT_EQ(all(found.warnings), "");
  EXPECT_EQ(files, make_bundle(run_of(sample_report()), {}));
  for (const char* name : {bundle_file, environment_file, power_file, readme_file, sums_file})
    EXPECT_TRUE(files.contains(name)) << name;
  EXPECT_EQ(checksums({{"a", "abc"}}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n");  // FIPS 180-4
}

TEST(Bundle, AlteredMissingAndAddedFilesAreNamed) {
  const BundleFiles good = make_bundle(run_of(sample_report()), {});
  for (const auto& [name, bytes] : good) {
    if (name == sums_file) continue;
    BundleFiles files = good;
    files[name] += " ";
    EXPECT_EQ(all(checksum_faults(files)), name + ": was altered: its SHA-256 differs from SHA256SUMS\n");
    files.erase(name);
    EXPECT_EQ(all(checksum_faults(files)), name + ": is missing, although SHA256SUMS lists it\n");
  }
  BundleFiles files = good;
  files["more"] = "";
  EXPECT_EQ(all(checksum_faults(files)), "more: was added: SHA256SUMS does not list it\n");
  files = good;
  files[signature_file] = "anything: signatures are not in the sums";
  EXPECT_EQ(all(checksum_faults(files)), "");
  files.erase(sums_file);
  EXPECT_EQ(all(checksum_faults(files)), "SHA256SUMS: is missing\n");
  for (const char* sums : {"x", "ba7816bf  a\n", "\n\n"}) {
    files[sums_file] = sums;
    EXPECT_EQ(all(checksum_faults(files)), "SHA256SUMS: is not what sha256sum writes\n") << sums;
  }
}

/// Whoever alters a file may alter its sum too; then the files contradict each other.
TEST(Bundle, FilesAreHeldAgainstEachOther) {
  const Report report = sample_report();
  const BundleFiles good = make_bundle(run_of(report), {});
  const auto changed = [&](const char* name, const std::string& text) {
    BundleFiles files = good;
    files[name] = text;
    files[sums_file] = checksums(files);
    return files;
  };
  Report other = report;
  other.records[0].trials[0].step_time_s[0] *= 0.5;
  expect_said(changed(report_file, to_json(other)),
              "records.jsonl: \"" + report.records[0].id + "\" differs from report.json");
  other = report;
  other.context.hosts[0].cpu = "a faster one";
  expect_said(changed(report_file, to_json(other)), "environment.json: contradicts report.json");
  other = report;
  other.context.started_at = "2026-01-01T00:00:00Z";
  expect_said(changed(report_file, to_json(other)), "run.json: /context/started_at: is not that of report.json");
  expect_said(changed(power_file, "record\r\n"), "power.csv: contradicts report.json");
  expect_said(changed(records_file, good.at(records_file).substr(good.at(records_file).find('\n') + 1)),
              "of report.json is missing");
  expect_said(changed(records_file, "{}\n"), "records.jsonl: cannot be read: line 1");
  expect_said(changed(run_file, "[]"), "run.json: cannot be read: ");
  expect_said(changed(bundle_file, "[]"), "bundle.json: /bundle_version: ");
  expect_said(changed(bundle_file, "{\"bundle_version\": \"2.0\"}"), "a newer trainwatt does");
  std::string broken = good.at(report_file);
  broken.replace(broken.find("\"samples_per_s\": {\"value\": "), 27, "\"samples_per_s\": {\"value\": 9");
  expect_said(changed(report_file, broken), "report.json: /records/1/summary/samples_per_s/value: ");
  BundleFiles none = good;
  none.erase(report_file);
  none[sums_file] = checksums(none);
  expect_said(none, "report.json: is missing: not a bundle of a run");
}

/// The report alone could say anything.
TEST(Bundle, ARunOfStepsHasItsRawRecords) {
  BundleFiles run = run_of(sample_report());
  run.erase(records_file);
  expect_said(make_bundle(run, {}), "records.jsonl: is missing");
  Report metered = sample_report();
  metered.records.resize(1);
  metered.records[0].workload.device = "command";
  run[report_file] = to_json(metered);
  for (const Fault& fault : validate_bundle(make_bundle(run, {})).violations)
    EXPECT_NE(fault.file, records_file) << "a command leaves none: " << fault_line(fault);
}

TEST(Bundle, WhatItWasForcedOverStaysInIt) {
  const BundleFiles files = make_bundle(run_of(sample_report()), {"report.json: /records/0: \x1b[31mbad"});
  EXPECT_NE(
      all(validate_bundle(files).warnings).find("bundle.json: was made with --force over: report.json: /records/0: "),
      std::string::npos);
  EXPECT_NE(files.at(readme_file).find("--force"), std::string::npos);
}

TEST(Bundle, SeriesAreACsv) {
  Report report = sample_report();
  report.records[0].trials[0].series = {{"=host,1", "nvml:GPU-1", "power_w", {0, 0.5}, {1, 2}, {1.5, 2.5}, {2, 3}}};
  const std::string csv = make_bundle(run_of(report), {}).at(power_file);
  EXPECT_NE(csv.find(report.records[0].id + ",1,\"'=host,1\",nvml:GPU-1,power_w,0.5,2,2.5,3\r\n"), std::string::npos)
      << csv;
}

/// Its name stands in every line of the table: 100 kB of report would make a gigabyte.
TEST(Bundle, ALongNameMakesNoHugeTable) {
  Report report = sample_report();
  report.records[0].id = std::string(50000, 'a');
  const std::vector<double> many(20000, 1.0);
  report.records[0].trials[0].series = {{"host", "nvml:GPU-1", "power_w", many, many, many, many}};
  EXPECT_THROW(make_bundle(run_of(report), {}), std::runtime_error);
}

TEST(FormatVersion, MajorsAreRefusedMinorsAreNot) {
  EXPECT_EQ(version_obstacle("1.0", "1.0"), "");
  EXPECT_EQ(version_obstacle("1.9", "1.0"), "");
  for (const char* found : {"2.0", "0.9", "", "1", "1.", ".0", "1.0.0", "one", " 1.0", "1.0 ", "99999999999.0"})
    EXPECT_NE(version_obstacle(found, "1.0"), "") << found;
  EXPECT_TRUE(is_newer_minor("1.1", "1.0"));
  for (const char* found : {"1.0", "2.0", "1"}) EXPECT_FALSE(is_newer_minor(found, "1.0")) << found;
}

}  // namespace
}  // namespace tw
