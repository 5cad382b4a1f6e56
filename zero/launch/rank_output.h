// RankOutput: everything the ranks print, read without blocking, shown, and the last lines of each remembered.
//
//   output.read_from(rank, stream, fd)   false at end of file
//   output.flush(now)                    prints what is due
//
// Invariant: whole lines only, never parts of two ranks in one. Local; not thread-safe.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "zero/launch/line_merger.h"

namespace zero {

class RankOutput {
 public:
  enum class Stream { kOutput, kErrors };
  using Time = LineMerger::Time;
  static constexpr std::size_t kLastLines = 20;

  // `ranks`: the numbers of the ranks of this machine; `shown[i]`: whether the i-th of them is seen at all.
  RankOutput(std::vector<int> ranks, std::vector<bool> shown);

  // Reads what is there. False when nothing will come any more.
  bool read_from(std::size_t index, Stream stream, int fd, Time now);
  void flush(Time now);
  void flush_all();
  std::optional<Time> due() const { return errors_.due(); }
  std::vector<std::string> last_lines(std::size_t index) const {
    return {ranks_[index].last.begin(), ranks_[index].last.end()};
  }
  // Standard output was closed by whoever reads it (`| head`).
  bool reader_gone() const { return reader_gone_; }

 private:
  struct Rank {
    int number = 0;
    bool shown = true;
    LineSplitter output, errors;
    std::deque<std::string> last;
  };
  void show(Rank& rank, Stream stream, std::string line, Time now);
  void write(int fd, const std::string& text);

  std::vector<Rank> ranks_;
  LineMerger errors_;
  bool reader_gone_ = false;
};

}  // namespace zero
