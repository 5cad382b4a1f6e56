// HeldOutput: text for a stream of this process. It holds the part that the stream does not take now.
//
//   HeldOutput out(STDOUT_FILENO);
//   out.write("a line\n");                       // as much as the stream takes; after held text, all is held
//   if (out.waits()) poll({out.fd(), POLLOUT});   out.flush();
//   if (!out.full()) out.write(more);             // writing to a full one only holds more
//
// Invariants: it never waits for a reader, although a write to a disk can take time. Lines of up to 4,096 bytes arrive
// whole, even if another stream writes to the same pipe. Text that cannot be written for another reason is dropped.
// Local; not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "zero/base/files/file.h"

namespace zero {

class HeldOutput {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  // `stream` may be blocking or not, and is not closed. The first write examines it.
  explicit HeldOutput(int stream) : stream_(stream) {}

  void write(std::string_view text);
  void flush();
  void discard() { held_.clear(); }

  std::size_t held_bytes() const { return held_.size(); }
  bool waits() const { return !held_.empty(); }
  bool full() const { return held_.size() >= kMostBytes; }
  int fd() const { return own_.get() >= 0 ? own_.get() : stream_; }
  // Returns whether the stream's reader is gone (`| head`).
  bool reader_gone() const { return reader_gone_; }

 private:
  bool takes_now() const;

  int stream_;
  bool looked_at_ = false;
  FileDescriptor own_;  // the same pipe or terminal, opened again as non-blocking, because the stream is shared
  std::string held_;
  bool reader_gone_ = false;
};

}  // namespace zero
