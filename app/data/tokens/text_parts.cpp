#include "app/data/tokens/text_parts.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace zero {

TextParts::TextParts(const std::string& path, const BytePairTokenizer* tokenizer, std::int64_t most_bytes)
    : file_(path), tokenizer_(tokenizer), most_bytes_(most_bytes) {}

bool TextParts::next(std::string& part) {
  if (at_ >= file_.size_bytes()) return false;
  const std::int64_t bytes = std::min(most_bytes_, file_.size_bytes() - at_);
  part.resize(static_cast<std::size_t>(bytes));
  file_.read_at(at_, std::as_writable_bytes(std::span(part)));
  if (at_ + bytes < file_.size_bytes()) part.resize(cut_of(part));
  at_ += std::ssize(part);
  return true;
}

std::size_t TextParts::cut_of(const std::string& part) const {
  const auto may_cut = [&](std::size_t at) { return tokenizer_ == nullptr || tokenizer_->may_cut(part, at); };
  // A line end stays with the line after it, because the tokenizer cuts blank space as a whole.
  const auto is_line_end = [&](std::size_t at) { return part[at] == '\n' || part[at] == '\r'; };
  for (std::size_t at = part.size() - 1; at > 0; --at)
    if (is_line_end(at) && may_cut(at)) return at;
  if (tokenizer_ == nullptr) return part.size();
  for (std::size_t at = part.size() - 1; at > 0; --at)
    if (!is_line_end(at) && may_cut(at)) return at;
  return part.size();
}

}  // namespace zero
