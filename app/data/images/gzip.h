// gunzip(): bytes that may be gzip-compressed, as they were before. is_gzip(): whether they are.
//
//   is_gzip(file) ? gunzip(file, limit, "data.path", path) : ...
//
// Memory is taken as output arrives, so a small file that claims to be large costs nothing. Local.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace zero {

bool is_gzip(std::span<const std::byte> file);

// At most `limit` bytes of the contents (one gzip member after the other). ConfigError(key, path) when the stream is
// damaged or ends before `limit` bytes are there and before its own end.
std::vector<std::byte> gunzip(std::span<const std::byte> file, std::size_t limit, std::string_view key,
                              std::string_view path);

}  // namespace zero
