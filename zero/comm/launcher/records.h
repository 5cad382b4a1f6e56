// MemoryRequest, MemoryAnswer: the records between a rank (launcher_memory.h) and its launcher
// (app/launch/held/memory_server.h), one answer for each request.
//
// A put carries a descriptor, and so does the answer to a get. Invariant: both sides run on one machine, so the records
// are plain memory; the version guards against a program that was built with another zero.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zero {

inline constexpr std::size_t kLongestMemoryName = 200;

// Names that the launcher drops before it restarts ranks: those that begin with kFlightNames, and those of unfinished
// work, which contain kUnfinishedNames.
inline constexpr std::string_view kFlightNames = "flight/";
inline constexpr std::string_view kUnfinishedNames = "/tmp/";

// Returns true for at most kLongestMemoryName of [A-Za-z0-9._/-]. A prefix may be empty, a name may not.
constexpr bool is_memory_prefix(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";
  return text.size() <= kLongestMemoryName && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

struct MemoryRequest {
  static constexpr std::uint32_t kVersion = 0x7a6b0002;
  enum class Kind : std::uint32_t { kPut, kGet, kList, kRename, kRemove, kLauncher };

  std::uint32_t version = kVersion;
  Kind kind = Kind::kGet;
  std::uint64_t number = 0;                 // repeated in the answer
  char name[kLongestMemoryName + 1] = {};   // a name or a prefix, with a zero byte at its end
  char other[kLongestMemoryName + 1] = {};  // kRename: the new prefix; kList: the last name that is already known
};

struct MemoryAnswer {
  enum class Kind : std::uint32_t {
    kDone,
    kNone,     // kGet: no memory of that name
    kMore,     // kList: there are more names after these
    kRefused,  // `text` is the reason
  };

  std::uint64_t number = 0;
  Kind kind = Kind::kDone;
  std::uint32_t text_bytes = 0;
  char text[16384] = {};  // kList: names, each with a zero byte at its end; kLauncher: the launcher's name
};

}  // namespace zero
