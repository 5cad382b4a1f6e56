// gunzip(): decompresses a gzip file in memory. is_gzip(): is it a gzip file?
//
//   is_gzip(file) ? gunzip(file, limit, "data.path", path) : ...
//
// Memory is allocated as output arrives, so a small file that claims to be large costs nothing. Local.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace zero {

bool is_gzip(std::span<const std::byte> file);

// Returns at most `limit` bytes of the contents of all gzip members. Throws ConfigError(key, path) if the stream is
// damaged, or is cut off before `limit` bytes.
std::vector<std::byte> gunzip(std::span<const std::byte> file, std::size_t limit, std::string_view key,
                              std::string_view path);

}  // namespace zero
