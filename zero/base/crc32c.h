// crc32c(): the sum of Castagnoli over bytes, as iSCSI, ext4 and TFRecord have it.
//
//   crc32c("123456789")       // 0xE3069283
//
// From a table, a byte at a time: for small records. Local.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace zero
