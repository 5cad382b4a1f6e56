// EventFile: a file of events that TensorBoard finds, new for each process that writes one.
//
//   EventFile file(files.tensorboard, unix_seconds());   // events.out.tfevents.1790000000.host.4711.0
//   file.add(scalars_event({.time = t, .step = 7}, values));
//   file.flush();                                           // written, in one write(2)
//
// Its name sorts behind those of all event files in the folder, also where another machine's clock was ahead: readers
// take them in that order. Records are kept until flush(). A crash loses those, and leaves no half of another. Local;
// not thread-safe. Throws IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "zero/base/file.h"

namespace zero {

class EventFile {
 public:
  // Makes the folder, and the file with its version. `time` in seconds since 1970.
  EventFile(const std::filesystem::path& folder, double time);

  // A message of event.h.
  void add(std::string_view event);
  // Throws IoError: then all records are still kept, and the next flush() begins with the file as it was before this
  // one.
  void flush();

  std::size_t kept_bytes() const { return pending_.size(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<AppendFile> file_;  // once something was written
  std::uintmax_t written_ = 0;      // bytes of whole records in it
  std::string pending_;
};

// Removes all event files of a folder, and the folder where nothing else is in it. Throws IoError.
void remove_event_files(const std::filesystem::path& folder);

}  // namespace zero
