// Contents of small data files for tests, valid or not.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

namespace zero {

template <typename Token>
std::string raw_tokens(const std::vector<std::int64_t>& tokens) {
  std::string file;
  for (const std::int64_t token : tokens) {
    const auto narrow = static_cast<Token>(token);
    file.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  }
  return file;
}

inline std::string llmc_header(std::int32_t magic, std::int32_t version, std::int32_t num_tokens) {
  std::string header(1024, '\0');
  const std::int32_t words[] = {magic, version, num_tokens};
  std::memcpy(header.data(), words, sizeof(words));
  return header;
}

inline std::string idx_file(std::uint32_t magic, const std::vector<std::uint32_t>& sizes, std::string_view values) {
  std::string file;
  const auto append = [&](std::uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) file.push_back(static_cast<char>(word >> shift));
  };
  append(magic);
  for (const std::uint32_t size : sizes) append(size);
  return file.append(values);
}

inline std::string idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns, std::string_view pixels) {
  return idx_file(0x0803, {count, rows, columns}, pixels);
}

inline std::string idx_labels(std::string_view labels) {
  return idx_file(0x0801, {static_cast<std::uint32_t>(labels.size())}, labels);
}

inline std::string gzipped(std::string_view contents) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string file(deflateBound(&stream, contents.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(file.data());
  stream.avail_out = static_cast<uInt>(file.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  file.resize(stream.total_out);
  deflateEnd(&stream);
  return file;
}

}  // namespace zero
