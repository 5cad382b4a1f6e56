// ServedLog: the gradients in pushes.log since the run began or was last resumed, compared with its report. No gradient
// is lost, except those that a dead worker or a quorum leaves out, and none counts twice.
//
//   const ServedLog log(folder / "run/pushes.log", 3);
//   log.expect_each_gradient_counted(report, 300);           // sync.mode async
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace zero {

class ServedLog {
 public:
  ServedLog(const std::string& path, std::size_t workers) {
    std::ifstream lines(path);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string what;
      std::int64_t first = 0, clock = 0;
      words >> what >> first;
      EXPECT_TRUE(!has_ended_ || what == "resumed") << line << ", after the end";
      has_ended_ = what == "end";
      if (has_ended_ || what == "rank") continue;  // a rank line describes that rank's machine
      if (what == "begin" || what == "resumed") {
        is_whole_ = what == "begin";
        begun_ = first;
        returned_ = 0;
        workers_.assign(workers, {.next = first});
        continue;
      }
      words >> clock;
      const bool is_known = !words.fail() && static_cast<std::size_t>(first) < workers_.size();
      EXPECT_TRUE(is_known) << line;
      if (!is_known) return;
      event(what, workers_[static_cast<std::size_t>(first)], clock);
    }
    EXPECT_FALSE(workers_.empty()) << path;
    EXPECT_TRUE(has_ended_) << path << ": the run did all its steps";
  }

  // Whether the log has all events of the run, which a replay needs.
  bool is_whole() const { return is_whole_; }

  // For sync.mode async: each worker has pushed each clock, except clocks between its death and its return. The report
  // counts all steps of the run, and the log of a resumed run has only those since the checkpoint.
  void expect_each_gradient_counted(const nlohmann::json& report, std::int64_t steps) const {
    const nlohmann::json& served = report.at("served");
    for (const Worker& worker : workers_) {
      EXPECT_EQ(worker.passed_over, 0) << "a living worker skipped clocks";
      if (worker.is_here) {
        EXPECT_EQ(worker.next, steps) << "the worker pushed clocks to the end";
      }
    }
    const std::vector<std::int64_t> counted = counted_gradients(served);
    EXPECT_EQ(served.at("updates"), std::accumulate(counted.begin(), counted.end(), std::int64_t{0}));
    EXPECT_EQ(served.at("dropped"), 0);
    if (!is_whole_) return;
    for (std::size_t worker = 0; worker < counted.size(); ++worker)
      EXPECT_EQ(counted[worker], workers_[worker].pushes) << "worker " << worker;
    EXPECT_EQ(served.at("replaced"), returned_);
  }

  // For a quorum: each update has `quorum` gradients, and each step has one update. A worker's last gradient may arrive
  // after the run's end.
  void expect_quorum_counted(const nlohmann::json& report, std::int64_t steps, std::int64_t quorum) const {
    const nlohmann::json& served = report.at("served");
    const std::vector<std::int64_t> counted = counted_gradients(served);
    const auto applied = std::accumulate(counted.begin(), counted.end(), std::int64_t{0});
    const auto updates = served.at("updates").get<std::int64_t>();
    EXPECT_GE(updates, steps);
    EXPECT_LE(updates, is_whole_ ? steps : steps + kAhead);
    EXPECT_EQ(applied, quorum * updates);
    std::int64_t pushes = 0;
    for (const Worker& worker : workers_) pushes += worker.pushes;
    const auto told = applied + served.at("dropped").get<std::int64_t>();
    EXPECT_LE(told, pushes + (begun_ + (is_whole_ ? 0 : kAhead)) * std::ssize(workers_));
    EXPECT_GE(told + std::ssize(workers_), pushes);
    if (is_whole_) {
      EXPECT_EQ(served.at("replaced"), returned_);
    }
  }

 private:
  struct Worker {
    std::int64_t next = 0;  // clock of the next expected gradient
    std::int64_t pushes = 0, passed_over = 0;
    bool is_here = true;
  };

  // At a checkpoint the servers may have counted gradients of a step after it, which a resumed run computes again.
  static constexpr std::int64_t kAhead = 2;

  // Gradients of each worker by the report. None is more than what was pushed.
  std::vector<std::int64_t> counted_gradients(const nlohmann::json& served) const {
    const auto counted = served.at("gradients_of_workers").get<std::vector<std::int64_t>>();
    EXPECT_EQ(counted.size(), workers_.size());
    for (std::size_t worker = 0; worker < std::min(counted.size(), workers_.size()); ++worker)
      EXPECT_LE(counted[worker], workers_[worker].pushes + begun_ + (is_whole_ ? 0 : kAhead)) << "worker " << worker;
    EXPECT_GE(served.at("replaced"), returned_);
    return counted;
  }

  void event(const std::string& what, Worker& worker, std::int64_t clock) {
    EXPECT_GE(clock, worker.next) << "the clock was already pushed";
    if (what == "leave") worker.is_here = false;
    if (what == "return") {
      worker.is_here = true;
      worker.next = clock;
      ++returned_;
    }
    if (what != "push") return;
    EXPECT_TRUE(worker.is_here);
    worker.passed_over += clock - worker.next;
    worker.next = clock + 1;
    ++worker.pushes;
  }

  std::vector<Worker> workers_;
  std::int64_t begun_ = 0, returned_ = 0;
  bool is_whole_ = false, has_ended_ = false;
};

}  // namespace zero
