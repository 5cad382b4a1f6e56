// crc32c(): the CRC with Castagnoli's polynomial, as in iSCSI, ext4 and TFRecord.
//
//   crc32c("123456789")       // 0xE3069283
//
// It uses a table, one byte at a time, so it is for small records. Local.
#pragma once

#include <cstdint>
#include <string_view>

namespace zero {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace zero
