// MemoryRequest, MemoryAnswer: the records between a rank (launcher_memory.h) and its launcher
// (zero/launch/memory_server.h): one asks, one answers.
//
// A put brings a descriptor along, the answer to a get does. Invariant: both sides are of one machine, so the records
// are plain memory; the version guards against a program that was built with another zero.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zero {

inline constexpr std::size_t kLongestMemoryName = 200;

// What the launcher drops before it starts ranks again: names that begin so, and those of what was not finished.
inline constexpr std::string_view kFlightNames = "flight/";
inline constexpr std::string_view kUnfinishedNames = "/tmp/";

// [A-Za-z0-9._/-], at most kLongestMemoryName of them. A prefix may be empty, a name may not.
constexpr bool is_memory_prefix(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";
  return text.size() <= kLongestMemoryName && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

struct MemoryRequest {
  static constexpr std::uint32_t kVersion = 0x7a6b0002;
  enum class Kind : std::uint32_t { kPut, kGet, kList, kRename, kRemove, kLauncher };

  std::uint32_t version = kVersion;
  Kind kind = Kind::kGet;
  std::uint64_t number = 0;                 // comes back with the answer
  char name[kLongestMemoryName + 1] = {};   // or a prefix; ends with a zero byte
  char other[kLongestMemoryName + 1] = {};  // kRename: the new prefix; kList: the last name that is known already
};

struct MemoryAnswer {
  enum class Kind : std::uint32_t {
    kDone,
    kNone,     // kGet: nothing of that name
    kMore,     // kList: there are names after these
    kRefused,  // `text` says why
  };

  std::uint64_t number = 0;
  Kind kind = Kind::kDone;
  std::uint32_t text_bytes = 0;
  char text[16384] = {};  // kList: names, each with a zero byte at its end; kLauncher: the launcher's name
};

}  // namespace zero
