// EventFile: a file of events that TensorBoard finds. Each process that writes events has a new file.
//
//   EventFile file(files.tensorboard, unix_seconds());   // events.out.tfevents.1790000000.host.4711.0
//   file.add(scalars_event({.time = t, .step = 7}, values));
//   file.flush();                                           // written, in one write(2)
//
// Its name sorts after those of all event files in the folder, even if another machine's clock was ahead, because
// readers use this order. Records are kept until flush(). A crash loses the kept records, and leaves no partial record.
// Local; not thread-safe. Throws IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "zero/base/files/file.h"

namespace zero {

class EventFile {
 public:
  // Creates the folder, and the file with its version. `time`: seconds since 1970.
  EventFile(const std::filesystem::path& folder, double time);

  // Adds a message from event.h.
  void add(std::string_view event);
  // Writes the records. If it throws IoError, all records are still kept, and the next flush() first restores the file
  // as it was before this call.
  void flush();

  std::size_t kept_bytes() const { return pending_.size(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<AppendFile> file_;  // set after the first write
  std::uintmax_t written_ = 0;      // bytes of whole records in the file
  std::string pending_;
};

// Removes all event files of a folder, and the folder if it is then empty. Throws IoError.
void remove_event_files(const std::filesystem::path& folder);

}  // namespace zero
