// Last words: the lines in which a rank says why it ends, told apart from its other lines on standard error.
//
//   begins_last_words("zero train: data.path = x: no such file")    // a verb of the command says why it ends: true
//   accused_rank("zero train: rank 1: all_gather: it left")         // 1: the rank that says so met another's failure
//   TraceFilter filter;   filter.pass(line)                         // nothing for a line of libtorch's trace
//
// Local; values only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zero {

// A verb prints the reason why it ends from this line on. False for lines of `zero launch`, which also reports
// restarts.
bool begins_last_words(std::string_view line);

// The rank with which a reason begins ("rank 1: ..."), with or without the verb before it, or what C++ prints before the
// text of an exception that nobody catches; -1: none.
int accused_rank(std::string_view line);
// The same, where the reason is that this rank left the run: it is about to say why itself.
int rank_that_left(std::string_view line);

// Leaves out the trace that libtorch puts behind the message of an error: "Exception raised from ...", "frame #0: ...".
// One line stands in its place and says how to see it.
class TraceFilter {
 public:
  // The line to be shown; nothing: none.
  std::optional<std::string> pass(std::string line);
  // The line before was the last one of a message: the error's own.
  bool at_trace() const { return at_trace_; }

 private:
  bool in_trace_ = false;
  bool at_trace_ = false;
};

}  // namespace zero
