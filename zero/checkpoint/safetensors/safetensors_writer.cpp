#include "zero/checkpoint/safetensors/safetensors_writer.h"

#include "zero/base/error/check.h"

namespace zero {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries,
                                     const SafetensorsMetadata& metadata)
    : file_(path) {
  lay_out(entries, path.native());
  const std::string header = render_safetensors_header(entries, metadata, path.native());
  file_.write_at(0, std::as_bytes(std::span(header)));
  size_bytes_ = static_cast<std::int64_t>(header.size());
  for (const SafetensorsEntry& entry : entries) size_bytes_ += entry.size_bytes();
  for (const SafetensorsEntry& entry : entries)
    tensors_.emplace(entry.name, Progress{.begin = static_cast<std::int64_t>(header.size()) + entry.begin,
                                          .size_bytes = entry.size_bytes()});
}

void SafetensorsWriter::write(std::string_view name, std::int64_t byte_offset, std::span<const std::byte> bytes) {
  const auto found = tensors_.find(name);
  ZERO_CHECK(found != tensors_.end(), "no tensor '{}' was announced", name);
  Progress& tensor = found->second;
  const auto size = static_cast<std::int64_t>(bytes.size());
  ZERO_CHECK(byte_offset >= 0 && byte_offset <= tensor.size_bytes && size <= tensor.size_bytes - byte_offset,
             "tensor '{}' has {} bytes; {} were written at {}", name, tensor.size_bytes, size, byte_offset);
  file_.write_at(tensor.begin + byte_offset, bytes);
  tensor.written_bytes += size;
}

void SafetensorsWriter::commit() {
  for (const auto& [name, tensor] : tensors_)
    ZERO_CHECK(tensor.written_bytes == tensor.size_bytes, "tensor '{}': {} of {} bytes were written", name,
               tensor.written_bytes, tensor.size_bytes);
  file_.commit();
}

}  // namespace zero
