// HeldOutput: text on its way to a stream of this process. The part that the stream does not take now is held.
//
//   HeldOutput out(STDOUT_FILENO);
//   out.write("a line\n");                       // as much as the stream takes; all is held behind what is held
//   if (out.waits()) poll({out.fd(), POLLOUT});   out.flush();
//   if (!out.full()) out.write(more);             // who goes on all the same only makes it hold more
//
// Invariant: never waits for a reader (a disk may take its time). Lines of up to 4,096 bytes arrive whole, also where
// another stream leads to the same pipe. Text that cannot be written for another reason is dropped. Local; not
// thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "zero/base/file.h"

namespace zero {

class HeldOutput {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  // `stream`: blocking or not; not closed. It is looked at when something is written first.
  explicit HeldOutput(int stream) : stream_(stream) {}

  void write(std::string_view text);
  void flush();
  void discard() { held_.clear(); }

  std::size_t held_bytes() const { return held_.size(); }
  bool waits() const { return !held_.empty(); }
  bool full() const { return held_.size() >= kMostBytes; }
  int fd() const { return own_.get() >= 0 ? own_.get() : stream_; }
  // Its reader is gone (`| head`).
  bool reader_gone() const { return reader_gone_; }

 private:
  bool takes_now() const;

  int stream_;
  bool looked_at_ = false;
  FileDescriptor own_;  // the same pipe or terminal, opened once more without waiting: the stream itself is shared
  std::string held_;
  bool reader_gone_ = false;
};

}  // namespace zero
