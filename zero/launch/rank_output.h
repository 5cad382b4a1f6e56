// RankOutput: reads the output of all ranks without blocking, shows it, and remembers the last lines of each. The
// words with which a verb of the command says why it ends (last_words.h) are not shown: the failure report says them
// once. Nor is libtorch's trace shown, unless the log is at debug.
//
//   if (output.takes(rank, stream)) output.read_from(rank, stream, fd)   some of it; false at end of file
//   output.flush(now)                    prints what is due
//
// Invariant: whole lines only, never parts of two ranks in one. Printing waits for no reader: output that nobody takes
// is held, about a MiB a stream; after that the ranks wait in their own write(). Local; not thread-safe.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "zero/launch/held_output.h"
#include "zero/launch/last_words.h"
#include "zero/launch/line_merger.h"

namespace zero {

class RankOutput {
 public:
  enum class Stream { kOutput, kErrors };
  using Time = LineMerger::Time;
  static constexpr std::size_t kLastLines = 20;

  // `ranks`: the numbers of the ranks of this machine; `shown[i]`: whether the i-th of them is seen at all.
  RankOutput(std::vector<int> ranks, std::vector<bool> shown);

  // Whether there is room for more of what this rank prints there.
  bool takes(std::size_t index, Stream stream) const;
  // Reads what is there, up to 64 KiB. False when nothing will come any more.
  bool read_from(std::size_t index, Stream stream, int fd, Time now);
  void flush(Time now);
  void flush_all();
  // Behind all that the ranks printed, on standard error.
  void say(std::string_view text);
  // Of the streams that have not taken everything yet: descriptors to poll for POLLOUT, and then to flush().
  std::vector<int> waiting() const;
  // What is held for them.
  std::size_t held_bytes() const { return to_output_.held_bytes() + to_errors_.held_bytes(); }
  void discard_held();
  std::optional<Time> due() const { return errors_.due(); }
  std::vector<std::string> last_lines(std::size_t index) const {
    return {ranks_[index].last.begin(), ranks_[index].last.end()};
  }
  // Why it ends, where it said so.
  const std::vector<std::string>& last_words(std::size_t index) const { return ranks_[index].words; }
  // Its last line on standard error, or the one before libtorch's trace; empty: none.
  const std::string& last_error(std::size_t index) const { return ranks_[index].last_error; }
  bool shown(std::size_t index) const { return ranks_[index].shown; }
  // Shows the last words that this rank has said after all: no failure report will.
  void show_last_words(std::size_t index, Time now) { show_last_words(ranks_[index], now); }
  // Standard output was closed by whoever reads it (`| head`).
  bool reader_gone() const { return to_output_.reader_gone(); }

 private:
  struct Rank {
    int number = 0;
    bool shown = true;
    LineSplitter output, errors;
    std::deque<std::string> last;
    TraceFilter trace;
    std::vector<std::string> words;
    std::string last_error;
  };
  static void note_error(Rank& rank, const std::string& line);
  void show_error(const Rank& rank, std::string line, Time now);
  void show_last_words(Rank& rank, Time now);
  void show(Rank& rank, Stream stream, std::string line, Time now);

  std::vector<Rank> ranks_;
  LineMerger errors_;
  HeldOutput to_output_, to_errors_;
};

}  // namespace zero
