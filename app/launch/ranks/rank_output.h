// RankOutput: reads the output of all ranks without blocking, shows it, and keeps each rank's last lines.
//
//   if (output.takes(rank, stream)) output.read_from(rank, stream, fd, now)   // reads some; false at end of file
//   output.flush(now)                                                        // prints the lines that are due
//
// It does not show the lines in which a verb says why it ends (last_words.h), because the failure report prints them
// once. It does not show libtorch's trace, unless the log level is debug. Invariants: it prints whole lines, never
// parts of two ranks in one line. It never waits for a reader: it holds about a MiB of output for each stream; after
// that the ranks wait in their own write(). Local; not thread-safe.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "app/launch/ranks/held_output.h"
#include "app/launch/ranks/last_words.h"
#include "app/launch/ranks/line_merger.h"

namespace zero {

class RankOutput {
 public:
  enum class Stream { kOutput, kErrors };
  using Time = LineMerger::Time;
  static constexpr std::size_t kLastLines = 20;

  // `ranks`: the numbers of this machine's ranks. `shown[i]`: whether output of the i-th rank is shown.
  RankOutput(std::vector<int> ranks, std::vector<bool> shown);

  // Returns whether there is room for more output of this rank on this stream.
  bool takes(std::size_t index, Stream stream) const;
  // Reads up to 64 KiB of available output. Returns false at end of file.
  bool read_from(std::size_t index, Stream stream, int fd, Time now);
  void flush(Time now);
  void flush_all();
  // Prints `text` on standard error, after all output of the ranks.
  void say(std::string_view text);
  // Returns the descriptors of streams with held output: poll them for POLLOUT, then call flush().
  std::vector<int> waiting() const;
  // Returns the bytes of held output.
  std::size_t held_bytes() const { return to_output_.held_bytes() + to_errors_.held_bytes(); }
  void discard_held();
  std::optional<Time> due() const { return errors_.due(); }
  std::vector<std::string> last_lines(std::size_t index) const {
    return {ranks_[index].last.begin(), ranks_[index].last.end()};
  }
  // Returns the lines in which the rank says why it ends; empty: none.
  const std::vector<std::string>& last_words(std::size_t index) const { return ranks_[index].words; }
  // Returns the rank's last line on standard error, or the line before libtorch's trace; empty: none.
  const std::string& last_error(std::size_t index) const { return ranks_[index].last_error; }
  bool shown(std::size_t index) const { return ranks_[index].shown; }
  // Shows this rank's last words, because no failure report will contain them.
  void show_last_words(std::size_t index, Time now) { show_last_words(ranks_[index], now); }
  // Returns whether the reader of standard output has closed it (`| head`).
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
