#include "app/data/tokens/token_stream.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

namespace zero {
namespace {

constexpr std::int64_t kHeaderBytes = kTokenHeadBytes;  // bytes of llm.c's header
constexpr std::size_t kBlockBytes = 65536;              // bytes of one read; a multiple of each token size

struct LlmcFormat {
  std::int32_t magic;
  std::int32_t version;
  std::size_t token_bytes;
  std::string_view name;
};
constexpr std::array<LlmcFormat, 2> kLlmcFormats = {{
    {20240520, 1, 2, "llm.c uint16"},
    {20240801, 7, 4, "llm.c uint32"},
}};

struct Stranger {
  std::string_view mark;
  std::string_view name;
};
using namespace std::string_view_literals;
// Marks have four bytes or more, because nanoGPT tokens could equal a shorter mark by chance.
constexpr std::array<Stranger, 10> kStrangers = {{
    {"\xc6\xd7\x34\x01"sv, "an llm.c model"},           // 20240326
    {"\xc7\xd7\x34\x01"sv, "an llm.c debug state"},     // 20240327
    {"\xc8\xd7\x34\x01"sv, "an llm.c tokenizer"},       // 20240328
    {"\x8a\xd8\x34\x01"sv, "an llm.c evaluation set"},  // 20240522
    {"\x8f\xd8\x34\x01"sv, "an llm.c training state"},  // 20240527
    {"\xa3\xd9\x34\x01"sv, "an llm.c Llama 3 model"},   // 20240803
    {"MMIDIDX\0\0"sv, "a Megatron index"},
    {"\x1f\x8b\x08\x00"sv, "gzip-compressed"},
    {"\x1f\x8b\x08\x08"sv, "gzip-compressed"},
    {"PK\x03\x04"sv, "a zip archive"},
}};

std::int32_t header_word(std::span<const std::byte> head, std::size_t index) {
  std::int32_t word;
  std::memcpy(&word, head.data() + index * sizeof(word), sizeof(word));
  return word;
}

TokenLayout layout_of(const InputFile& file, TokenKind kind, std::string_view key) {
  std::array<std::byte, kTokenHeadBytes> block;
  const auto head = std::span(block).first(static_cast<std::size_t>(std::min(file.size_bytes(), kTokenHeadBytes)));
  file.read_at(0, head);
  return parse_token_layout(head, file.size_bytes(), kind, key, file.path());
}

// Converts tokens by loads of fixed width, which the compiler can vectorise. The source may be unaligned.
template <typename Token>
void widen(const std::byte* source, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Token token;
    std::memcpy(&token, source + i * sizeof(Token), sizeof(Token));
    out[i] = static_cast<std::int64_t>(token);
  }
}

// Are all bytes of the head printable? That is very unlikely for tokens of 16 bits.
bool looks_like_text(std::span<const std::byte> head) {
  constexpr std::size_t kEnough = 64;
  const auto is_printable = [](std::byte byte) {
    const int value = std::to_integer<int>(byte);
    return (value >= 0x20 && value < 0x7f) || value == '\n' || value == '\t' || value == '\r';
  };
  return head.size() >= kEnough && std::ranges::all_of(head, is_printable);
}

}  // namespace

TokenLayout parse_token_layout(std::span<const std::byte> head, std::int64_t size_bytes, TokenKind kind,
                               std::string_view key, std::string_view path) {
  ZERO_CHECK(std::ssize(head) == std::min(size_bytes, kTokenHeadBytes), "{}: a head of {} bytes of {}", path,
             head.size(), size_bytes);
  const auto refuse = [&](const std::string& reason, std::string_view remedy) {
    throw ConfigError(key, path, reason, remedy);
  };
  if (size_bytes == 0) refuse("the file is empty", "Give a file with data in it.");
  if (kind == TokenKind::kText) return {.format = "text", .num_tokens = size_bytes};

  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  for (const Stranger& stranger : kStrangers)
    if (text.starts_with(stranger.mark))
      refuse(fmt::format("is {}, not a file of tokens", stranger.name),
             "data.kind = \"tokens\" reads llm.c .bin and nanoGPT .bin files.");

  const std::int32_t magic = head.size() >= sizeof(std::int32_t) ? header_word(head, 0) : 0;
  for (const LlmcFormat& format : kLlmcFormats) {
    if (magic != format.magic) continue;
    if (size_bytes < kHeaderBytes)
      refuse(fmt::format("is cut short: {} bytes, but an llm.c header has {}", size_bytes, kHeaderBytes),
             "Fetch or write the file again.");
    if (header_word(head, 1) != format.version)
      refuse(fmt::format("llm.c version {}; expected {} for magic {}", header_word(head, 1), format.version, magic),
             "Write the file again with a current llm.c.");
    const std::int64_t announced = header_word(head, 2);
    const std::int64_t data_bytes = size_bytes - kHeaderBytes;
    const auto token_bytes = static_cast<std::int64_t>(format.token_bytes);
    if (announced < 0 || announced * token_bytes != data_bytes)
      refuse(fmt::format("the header announces {} tokens, but {} bytes follow (needed: {})", announced, data_bytes,
                         announced * token_bytes),
             "The file is damaged or still being written; fetch or write it again.");
    return {
        .format = format.name, .token_bytes = format.token_bytes, .data_begin = kHeaderBytes, .num_tokens = announced};
  }
  if (size_bytes % 2 != 0)
    refuse(
        fmt::format("has {} bytes, an odd number, and no llm.c header; nanoGPT files hold 2 bytes a token", size_bytes),
        "For plain text set data.kind = \"text\".");
  if (looks_like_text(head))
    refuse("begins with text, and with no numbers of tokens",
           "For plain text set data.kind = \"text\"; `zero tokenize` makes tokens of it.");
  return {.format = "nanoGPT uint16", .token_bytes = 2, .num_tokens = size_bytes / 2};
}

void widen_tokens(std::span<const std::byte> raw, std::size_t token_bytes, std::span<std::int64_t> out) {
  ZERO_CHECK(raw.size() == out.size() * token_bytes, "{} tokens of {} bytes in {}", out.size(), token_bytes,
             raw.size());
  switch (token_bytes) {
    case 1:
      return widen<std::uint8_t>(raw.data(), out);
    case 2:
      return widen<std::uint16_t>(raw.data(), out);
    case 4:
      return widen<std::uint32_t>(raw.data(), out);
  }
  ZERO_CHECK(false, "tokens of {} bytes", token_bytes);
}

TokenStream::TokenStream(const std::filesystem::path& path, TokenKind kind, std::string_view key)
    : file_((require_input_file(key, path), path)), layout_(layout_of(file_, kind, key)) {}

void TokenStream::read(std::int64_t begin, std::span<std::int64_t> out) const {
  ZERO_CHECK(begin >= 0 && std::ssize(out) <= layout_.num_tokens - begin, "tokens [{}, {}) of {}", begin,
             begin + std::ssize(out), layout_.num_tokens);
  std::array<std::byte, kBlockBytes> block;
  std::int64_t offset = layout_.data_begin + begin * static_cast<std::int64_t>(layout_.token_bytes);
  while (!out.empty()) {
    const std::size_t count = std::min(out.size(), block.size() / layout_.token_bytes);
    const auto raw = std::span(block).first(count * layout_.token_bytes);
    file_.read_at(offset, raw);
    widen_tokens(raw, layout_.token_bytes, out.first(count));
    out = out.subspan(count);
    offset += std::ssize(raw);
  }
}

}  // namespace zero
