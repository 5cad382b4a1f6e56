#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "command.h"

namespace zero {
namespace {

// How fast is the benchmarks' business; here only that numbers come out, in the units they claim.
nlohmann::json bench(const std::string& arguments) {
  const Folder folder;
  const Ran ran = folder.zero("bench " + arguments + " --json");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  return nlohmann::json::parse(ran.output, nullptr, false);
}

TEST(Bench, AdamGivesRatiosOfItsOwnTimes) {
  const auto json = bench("adam --mib 4 --threads 2");
  EXPECT_EQ(json["array_bytes"], 4 << 20);
  EXPECT_DOUBLE_EQ(json["ratio_best"].get<double>(),
                   json["probe_best_s"].get<double>() / json["adam_best_s"].get<double>());
  EXPECT_GE(json["adam_median_s"].get<double>(), json["adam_best_s"].get<double>());
}

TEST(Bench, CommMeasuresEverySizeBetweenTwoProcesses) {
  const auto json = bench("comm --mib 1 --rounds 2 --transports shared_memory");
  ASSERT_EQ(json["transports"].size(), 1u) << json.dump();
  EXPECT_EQ(json["transports"][0]["transport"], "shared_memory");
  ASSERT_EQ(json["transports"][0]["sizes"].size(), 2u) << json.dump();
  for (const auto& row : json["transports"][0]["sizes"]) {
    EXPECT_GT(row["all_reduce_best_s"].get<double>(), 0);
    EXPECT_TRUE(std::isfinite(row["ratio_best"].get<double>()));
  }
}

TEST(Bench, CommRefusesATransportThatDoesNotExistOnce) {
  const Folder folder;
  const Ran ran = folder.zero("bench comm --mib 1 --transports pigeon");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("pigeon"), std::string::npos) << ran.errors;
}

TEST(Bench, DiskLeavesNoFile) {
  const Folder folder;
  const Ran ran = folder.zero("bench disk --mib 8 --rounds 1");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path().string().find("zero-bench"), std::string::npos);
}

TEST(Bench, RefusesWhatItCannotMeasure) {
  const Folder folder;
  EXPECT_NE(folder.zero("bench adma").errors.find("did you mean 'adam'?"), std::string::npos);
  EXPECT_EQ(folder.zero("bench adam --mib 0").status, 2);
  EXPECT_EQ(folder.zero("bench adam --rounds 4").status, 2) << "fewer than five rounds make no median";
  EXPECT_NE(folder.zero("bench adam --mib 1048576").errors.find("are needed"), std::string::npos);
  EXPECT_EQ(folder.zero("bench disk --dir /nowhere").status, 2);
}

}  // namespace
}  // namespace zero
