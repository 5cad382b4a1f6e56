#include "zero/checkpoint/read/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr std::size_t kFewestKept = 2, kMostKept = 64;
constexpr std::size_t kWidenedNumel = std::size_t{1} << 18;  // bf16 values that are converted to fp32 at a time

// Returns true if a file has several slices of one state of a tensor. Reading then alternates between files.
bool is_scattered(const Manifest& manifest) {
  return std::ranges::any_of(manifest.files, [](const SavedFile& file) {
    std::set<std::pair<int, int>> seen;
    return std::ranges::any_of(
        file.slices, [&](const SavedSlice& slice) { return !seen.emplace(slice.tensor, slice.state).second; });
  });
}

Manifest manifest_in(const SourceFolder& folder) {
  const std::string name(kManifestName);
  return parse_manifest(folder.read_text(name, kMostManifestBytes), folder.path_of(name));
}

}  // namespace

Manifest read_manifest(const std::filesystem::path& folder, const FileCalls& calls) {
  return manifest_in(SourceFolder(folder, calls));
}

CheckpointReader::CheckpointReader(const std::filesystem::path& folder, const FileCalls& calls,
                                   std::int64_t memory_bytes)
    : path_(folder), folder_(std::make_unique<SourceFolder>(folder, calls)), manifest_(manifest_in(*folder_)) {
  pieces_.assign(manifest_.tensors.size(), std::vector<std::vector<Piece>>(manifest_.states.size()));
  for (const SavedFile& file : manifest_.files) {
    for (const SavedSlice& slice : file.slices)
      pieces_[static_cast<std::size_t>(slice.tensor)][static_cast<std::size_t>(slice.state)].push_back(
          {slice.begin, slice.numel, slice.offset, files_.size()});
    files_.emplace_back(*folder_, file.name, file.content, BlocksInFlight::blocks_in(memory_bytes));
  }
  for (auto& states : pieces_)
    for (auto& pieces : states) std::ranges::sort(pieces, {}, &Piece::begin);
  if (is_scattered(manifest_))
    kept_.emplace(std::clamp(static_cast<std::size_t>(memory_bytes / kSumBlockBytes), kFewestKept, kMostKept));
}

int CheckpointReader::find(std::string_view name) const {
  const auto& tensors = manifest_.tensors;
  const auto found = std::ranges::find(tensors, name, &SavedTensor::name);
  return found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin());
}

void CheckpointReader::hold(std::size_t file, std::int64_t block) {
  if (held_block_ == block && held_file_ == file) return;
  held_block_ = -1;
  const std::vector<std::byte>* kept = kept_ ? kept_->find(file, block) : nullptr;
  if (kept == nullptr) {
    if (const std::size_t before = std::exchange(open_file_, file); before != file) files_[before].rest();
    held_ = files_[file].read_block(block);
    if (kept_) kept = kept_->keep(file, block, held_);
  }
  if (kept != nullptr) held_ = *kept;
  held_file_ = file;
  held_block_ = block;
}

void CheckpointReader::read_bytes(std::size_t file, std::int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const std::int64_t block = offset / kSumBlockBytes;
    hold(file, block);
    const auto begin = static_cast<std::size_t>(offset - block * kSumBlockBytes);
    const std::size_t count = std::min(out.size(), held_.size() - begin);
    std::memcpy(out.data(), held_.data() + begin, count);
    out = out.subspan(count);
    offset += static_cast<std::int64_t>(count);
  }
}

std::vector<CheckpointReader::Piece>::const_iterator CheckpointReader::piece_of(int tensor, int state,
                                                                                std::int64_t element) const {
  const auto& pieces = pieces_[static_cast<std::size_t>(tensor)][static_cast<std::size_t>(state)];
  const auto piece = std::ranges::upper_bound(pieces, element, {}, [](const Piece& p) { return p.begin + p.numel; });
  ZERO_CHECK(piece != pieces.end() && piece->begin <= element, "element {} is beyond tensor {}", element, tensor);
  return piece;
}

DType CheckpointReader::dtype(int tensor, int state) const {
  return state == 0 ? manifest_.tensors[static_cast<std::size_t>(tensor)].dtype : DType::kFloat32;
}

std::int64_t CheckpointReader::element_bytes(int tensor, int state) const {
  return static_cast<std::int64_t>(size_of(dtype(tensor, state)));
}

void CheckpointReader::expect(int tensor, int state, std::int64_t begin, std::int64_t numel) {
  const std::int64_t size = element_bytes(tensor, state), end = begin + numel;
  while (begin < end) {
    const auto piece = piece_of(tensor, state, begin);
    const std::int64_t skip = begin - piece->begin, count = std::min(end - begin, piece->numel - skip);
    if (std::exchange(expected_file_, piece->file) != piece->file) ++expected_run_;
    files_[piece->file].expect(piece->offset + skip * size, count * size, expected_run_);
    begin += count;
  }
}

std::vector<std::int64_t> CheckpointReader::expected_blocks(std::size_t file) const {
  std::vector<std::int64_t> blocks;
  for (std::int64_t block = 0; block < files_[file].num_blocks(); ++block)
    if (files_[file].expects(block)) blocks.push_back(block);
  return blocks;
}

void CheckpointReader::read(int tensor, int state, std::int64_t begin, std::span<float> out) {
  const DType saved = dtype(tensor, state);
  const bool widens = saved != DType::kFloat32;
  std::vector<std::uint16_t> bits;
  while (!out.empty()) {
    const auto piece = piece_of(tensor, state, begin);
    const std::int64_t skip = begin - piece->begin;
    std::span<float> part = out.first(std::min(out.size(), static_cast<std::size_t>(piece->numel - skip)));
    if (widens) part = part.first(std::min(part.size(), kWidenedNumel));
    if (widens) {
      bits.resize(part.size());
      read_bytes(piece->file, piece->offset + skip * 2, std::as_writable_bytes(std::span(bits)));
      convert_elements(reinterpret_cast<const std::byte*>(bits.data()), saved,
                       reinterpret_cast<std::byte*>(part.data()), DType::kFloat32, std::ssize(part));
    } else {
      read_bytes(piece->file, piece->offset + skip * 4, std::as_writable_bytes(part));
    }
    begin += std::ssize(part);
    out = out.subspan(part.size());
  }
}

std::vector<Extra> CheckpointReader::read_extras(int rank) {
  const auto file = static_cast<std::size_t>(rank);
  std::vector<Extra> extras;
  if (file >= files_.size()) return extras;
  for (const SavedExtra& saved : manifest_.files[file].extras) {
    Extra extra{.name = saved.name, .dtype = saved.dtype, .shape = saved.shape};
    extra.bytes.resize(static_cast<std::size_t>(saved.size_bytes));
    read_bytes(file, saved.offset, extra.bytes);
    extras.push_back(std::move(extra));
  }
  return extras;
}

void CheckpointReader::verify() {
  held_block_ = -1;
  for (BlockFileReader& file : files_) {
    for (std::int64_t block = 0; block < file.num_blocks(); ++block) (void)file.read_block(block);
    file.rest();
  }
}

}  // namespace zero
