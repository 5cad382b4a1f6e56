#include "zero/checkpoint/safetensors/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxDimensions = 16;
constexpr std::size_t kMaxNameBytes = 512;
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::string_view kMetadataName = "__metadata__";

[[noreturn]] void refuse(std::string_view path, std::string_view reason) {
  throw ConfigError(
      path, "", reason,
      "The file is damaged or not a safetensors file: download it again, or write it again with its program.");
}

// A name from the file, fit for one line of a message.
std::string in_quotes(std::string_view name) {
  std::string text = "'";
  for (const char c : name.substr(0, 64))
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  return text + (name.size() > 64 ? "...'" : "'");
}

// Returns the bytes of a tensor; empty if the product overflows, or if the bits do not fill whole bytes.
std::optional<std::int64_t> bytes_of(ElementType dtype, const std::vector<std::int64_t>& shape) {
  std::int64_t bits = 1;
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(bits, size, &bits)) return std::nullopt;
  if (__builtin_mul_overflow(bits, static_cast<std::int64_t>(bits_of(dtype)), &bits)) return std::nullopt;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

// Receives the events of nlohmann's SAX parser. Its DOM would keep the last of two equal keys and turn 2^64 into a
// float. This state machine accepts only the one thing that is valid at each position. Nesting needs no limit: the
// first value that is too deep is refused.
class HeaderHandler {
 public:
  HeaderHandler(std::string_view path, SafetensorsHeader& header) : path_(path), header_(header) {}

  bool start_object(std::size_t) {
    switch (at_) {
      case At::kDocument:
        return go(At::kName);
      case At::kTensor:
        return go(At::kField);
      case At::kMetadata:
        return go(At::kMetadataKey);
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& text) {
    switch (at_) {
      case At::kName:
        return name(text);
      case At::kField:
        return field(text);
      default:
        break;  // kMetadataKey
    }
    metadata_key_ = text;
    if (header_.metadata.contains(text)) fail(fmt::format("metadata key {} occurs twice", in_quotes(text)));
    return go(At::kMetadataText);
  }

  bool string(std::string& text) {
    if (at_ == At::kMetadataText) {
      header_.metadata.emplace(metadata_key_, text);
      return go(At::kMetadataKey);
    }
    if (at_ != At::kDType) return unexpected("a string");
    const auto dtype = element_type_of(text);
    if (!dtype) fail(fmt::format("safetensors has no dtype {}", in_quotes(text)));
    entry_.dtype = *dtype;
    return go(At::kField);
  }

  bool start_array(std::size_t) {
    if (at_ == At::kShape) return go(At::kSize);
    if (at_ == At::kOffsets) return go(At::kOffset);
    return unexpected("an array");
  }

  bool number_unsigned(std::uint64_t number) {
    if (at_ != At::kSize && at_ != At::kOffset) return unexpected("a number");
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail(fmt::format("{} is above 2^63 - 1", number));
    auto& numbers = at_ == At::kSize ? entry_.shape : offsets_;
    numbers.push_back(static_cast<std::int64_t>(number));
    if (entry_.shape.size() > kMaxDimensions) fail(fmt::format("has more than {} dimensions", kMaxDimensions));
    if (offsets_.size() > 2) fail("data_offsets holds more than two numbers");
    return true;
  }

  bool end_array() {
    if (at_ == At::kOffset && offsets_.size() != 2) fail("data_offsets must hold two numbers, begin and end");
    return go(At::kField);
  }

  bool end_object() {
    if (at_ == At::kField) finish_tensor();
    return go(at_ == At::kName ? At::kEnd : At::kName);
  }

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(std::int64_t number) { return unexpected(fmt::format("the negative number {}", number)); }
  bool number_float(double, const std::string& text) { return unexpected("the number " + in_quotes(text)); }
  bool binary(nlohmann::json::binary_t&) { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) {
    // what() quotes the token at which it stopped, which may be as long as the header.
    refuse(path_, fmt::format("the header is not JSON, at byte {}: {:.160}", kLengthBytes + position, error.what()));
  }

 private:
  // The part of the grammar that must follow.
  enum class At {
    kDocument,
    kName,
    kTensor,
    kField,
    kDType,
    kShape,
    kSize,
    kOffsets,
    kOffset,
    kMetadata,
    kMetadataKey,
    kMetadataText,
    kEnd
  };

  bool go(At next) {
    at_ = next;
    return true;
  }

  bool name(const std::string& text) {
    entry_ = {};
    entry_.name = text;
    offsets_.clear();
    seen_.clear();
    if (text.size() > kMaxNameBytes) fail(fmt::format("the name has more than {} bytes", kMaxNameBytes));
    if (!names_.insert(text).second) fail("occurs twice");
    if (names_.size() > kMaxTensors) refuse(path_, fmt::format("holds more than {} tensors", kMaxTensors));
    return go(text == kMetadataName ? At::kMetadata : At::kTensor);
  }

  bool field(const std::string& text) {
    if (!seen_.insert(text).second) fail(fmt::format("{} occurs twice", in_quotes(text)));
    if (text == "dtype") return go(At::kDType);
    if (text == "shape") return go(At::kShape);
    if (text == "data_offsets") return go(At::kOffsets);
    fail(fmt::format("has an unknown field {}; known are dtype, shape and data_offsets", in_quotes(text)));
  }

  void finish_tensor() {
    for (const char* const needed : {"dtype", "shape", "data_offsets"})
      if (!seen_.contains(needed)) fail(fmt::format("has no {}", needed));
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    const auto bytes = bytes_of(entry_.dtype, entry_.shape);
    const auto what = [&] { return fmt::format("{} [{}]", name_of(entry_.dtype), fmt::join(entry_.shape, ", ")); };
    if (!bytes) fail(fmt::format("{} has no size in whole bytes below 2^60", what()));
    if (entry_.begin > entry_.end)
      fail(fmt::format("data_offsets [{}, {}] end before they begin", entry_.begin, entry_.end));
    if (entry_.size_bytes() != *bytes)
      fail(fmt::format("data_offsets [{}, {}] hold {} bytes, but {} needs {}", entry_.begin, entry_.end,
                       entry_.size_bytes(), what(), *bytes));
    header_.entries.push_back(std::move(entry_));
  }

  bool unexpected(std::string_view found) {
    constexpr std::string_view kExpected[] = {"an object of tensors",
                                              "a tensor's name",
                                              "an object for a tensor",
                                              "dtype, shape or data_offsets",
                                              "a string for dtype",
                                              "an array for shape",
                                              "an unsigned integer",
                                              "an array for data_offsets",
                                              "an unsigned integer",
                                              "an object for the metadata",
                                              "a metadata key",
                                              "a string for a metadata value",
                                              "the end"};
    fail(fmt::format("expected {}, found {}", kExpected[static_cast<std::size_t>(at_)], found));
  }

  [[noreturn]] void fail(const std::string& reason) {
    refuse(path_, entry_.name.empty() ? reason : fmt::format("tensor {}: {}", in_quotes(entry_.name), reason));
  }

  std::string_view path_;
  SafetensorsHeader& header_;
  At at_ = At::kDocument;
  SafetensorsEntry entry_;
  std::vector<std::int64_t> offsets_;
  std::unordered_set<std::string> seen_;  // fields of this tensor
  std::unordered_set<std::string> names_;
  std::string metadata_key_;
};

// Requires that entries, sorted by offset, follow each other without gaps, and that the last one ends with the file.
void check_cover(const std::vector<SafetensorsEntry>& entries, std::int64_t buffer_bytes, std::string_view path) {
  std::int64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != covered)
      refuse(path, fmt::format("tensor {}: data_offsets [{}, {}] should begin at {}, the end of the tensor before: {}",
                               in_quotes(entry.name), entry.begin, entry.end, covered,
                               entry.begin < covered ? "they overlap" : "there is a hole"));
    covered = entry.end;
  }
  if (covered != buffer_bytes)
    refuse(path, fmt::format("the tensors take {} bytes, but {} follow the header: the file is {}", covered,
                             buffer_bytes, covered > buffer_bytes ? "cut short" : "too long"));
}

}  // namespace

std::int64_t SafetensorsEntry::numel() const {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;
  return numel;
}

std::size_t safetensors_head_bytes(std::span<const std::byte> file, std::int64_t file_bytes, std::string_view path) {
  if (file_bytes < static_cast<std::int64_t>(kLengthBytes))
    refuse(path, fmt::format("has {} bytes; a safetensors file has at least 8 and a header", file_bytes));
  ZERO_CHECK(file.size() >= kLengthBytes, "{}: its first {} bytes are needed", path, kLengthBytes);
  std::uint64_t length;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes)
    refuse(path, fmt::format("its first 8 bytes announce a header of {} bytes; at most {} are allowed", length,
                             kMaxHeaderBytes));
  const std::uint64_t follow = static_cast<std::uint64_t>(file_bytes) - kLengthBytes;
  if (length > follow)
    refuse(path,
           fmt::format("announces a header of {} bytes, but only {} follow: the file is cut short", length, follow));
  return kLengthBytes + static_cast<std::size_t>(length);
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, std::int64_t file_bytes,
                                           std::string_view path) {
  const std::size_t head = safetensors_head_bytes(file, file_bytes, path);
  ZERO_CHECK(file.size() >= head, "{}: its first {} bytes are needed", path, head);
  const std::string_view json(reinterpret_cast<const char*>(file.data()) + kLengthBytes, head - kLengthBytes);
  if (!json.starts_with('{')) refuse(path, "the header does not start with '{'");
  // nlohmann takes a zero byte for the end of the input, and would ignore the bytes after it.
  if (json.find('\0') != json.npos) refuse(path, "the header holds a zero byte");

  SafetensorsHeader header;
  header.buffer_begin = static_cast<std::int64_t>(head);
  HeaderHandler handler(path, header);
  nlohmann::json::sax_parse(json.begin(), json.end(), &handler);
  std::sort(header.entries.begin(), header.entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(header.entries, file_bytes - header.buffer_begin, path);
  return header;
}

void lay_out(std::vector<SafetensorsEntry>& entries, std::string_view path) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(-bits_of(a.dtype), std::string_view(a.name)) <
           std::pair(-bits_of(b.dtype), std::string_view(b.name));
  });
  std::int64_t offset = 0;
  for (SafetensorsEntry& entry : entries) {
    const auto bytes = bytes_of(entry.dtype, entry.shape);
    const bool fits = bytes && *bytes >= 0 && !__builtin_add_overflow(offset, *bytes, &entry.end);
    if (!fits || entry.shape.size() > kMaxDimensions)
      throw ConfigError(path, "", fmt::format("tensor {} is too large to store", in_quotes(entry.name)), "");
    entry.begin = std::exchange(offset, entry.end);
  }
  require_storable(entries, path);
}

void require_storable(const std::vector<SafetensorsEntry>& entries, std::string_view path) {
  std::unordered_set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    if (!names.insert(entry.name).second || entry.name == kMetadataName || entry.name.size() > kMaxNameBytes)
      throw ConfigError(path, "", fmt::format("tensor {} needs another name to be stored", in_quotes(entry.name)),
                        "Names must differ, have at most 512 bytes and not be __metadata__.");
  }
}

std::string render_safetensors_header(const std::vector<SafetensorsEntry>& entries, const SafetensorsMetadata& metadata,
                                      std::string_view path) {
  const auto text = [&](const std::string& value) {
    try {
      return nlohmann::json(value).dump();
    } catch (const nlohmann::json::type_error&) {
      throw ConfigError(path, "", fmt::format("the name {} is not UTF-8", in_quotes(value)), "Rename it.");
    }
  };
  std::string json = "{";
  if (!metadata.empty()) {
    json += text(std::string(kMetadataName)) + ":{";
    for (const auto& [key, value] : metadata) json += text(key) + ":" + text(value) + ",";
    json.back() = '}';
    json += ',';
  }
  for (const SafetensorsEntry& entry : entries)
    json += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", text(entry.name),
                        name_of(entry.dtype), fmt::join(entry.shape, ","), entry.begin, entry.end);
  if (json.back() == ',') json.pop_back();
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + json;
}

}  // namespace zero
