// A small reader of event files for tests. It shares only the checksum with the writer.
//
//   for (const ReadEvent& event : read_events(path)) event.scalars.at("train/loss");
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/files/crc32c.h"
#include "zero/base/files/file.h"

namespace zero {

struct ReadEvent {
  double time = 0;
  std::int64_t step = 0;
  std::string version;
  bool starts = false;  // whether a session starts at `step`
  std::map<std::string, float> scalars;
  std::map<std::string, std::string> texts;
};

namespace event_reader {

template <typename Value>
Value take(std::string_view& bytes) {
  Value value{};
  EXPECT_LE(sizeof value, bytes.size());
  std::memcpy(&value, bytes.data(), std::min(sizeof value, bytes.size()));
  bytes.remove_prefix(std::min(sizeof value, bytes.size()));
  return value;
}

inline std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// Calls see(number of the field, bytes of the field). A varint has eight bytes.
template <typename See>
void each_field(std::string_view message, See see) {
  while (!message.empty()) {
    const std::uint64_t key = varint(message);
    std::string copy;
    std::size_t size = 0;
    switch (key & 7) {
      case 0: {
        const std::uint64_t value = varint(message);
        copy.assign(reinterpret_cast<const char*>(&value), sizeof value);
        see(static_cast<int>(key >> 3), std::string_view(copy));
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = varint(message);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return;
    }
    ASSERT_LE(size, message.size());
    see(static_cast<int>(key >> 3), message.substr(0, size));
    message.remove_prefix(size);
  }
}

inline void read_value(std::string_view message, ReadEvent& event) {
  std::string tag;
  each_field(message, [&](int field, std::string_view bytes) {
    if (field == 1) tag = bytes;
    if (field == 2) event.scalars[tag] = take<float>(bytes);
    if (field == 8)
      each_field(bytes, [&](int part, std::string_view text) {
        if (part == 8) event.texts[tag] = text;
      });
  });
}

inline ReadEvent read_event(std::string_view message) {
  ReadEvent event;
  each_field(message, [&](int field, std::string_view bytes) {
    if (field == 1) event.time = take<double>(bytes);
    if (field == 2) event.step = take<std::int64_t>(bytes);
    if (field == 3) event.version = bytes;
    if (field == 5) each_field(bytes, [&](int, std::string_view value) { read_value(value, event); });
    if (field == 7) event.starts = true;
  });
  return event;
}

inline void expect_sum(std::string_view of, std::uint32_t masked) {
  const std::uint32_t turned = masked - 0xA282EAD8U;
  EXPECT_EQ((turned << 15U) | (turned >> 17U), crc32c(of));
}

}  // namespace event_reader

inline std::vector<ReadEvent> read_events(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  std::string_view rest = file;
  std::vector<ReadEvent> events;
  while (!rest.empty()) {
    const std::string_view length_bytes = rest.substr(0, 8);
    const auto length = event_reader::take<std::uint64_t>(rest);
    event_reader::expect_sum(length_bytes, event_reader::take<std::uint32_t>(rest));
    if (length > rest.size()) {
      ADD_FAILURE() << "a record of " << length << " bytes is cut";
      break;
    }
    const std::string_view message = rest.substr(0, length);
    rest.remove_prefix(length);
    event_reader::expect_sum(message, event_reader::take<std::uint32_t>(rest));
    events.push_back(event_reader::read_event(message));
  }
  return events;
}

// In the order of TensorBoard's reader.
inline std::vector<std::filesystem::path> event_files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace zero
