#include "zero/checkpoint/image/rank_image.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/process/parallel.h"
#include "zero/checkpoint/image/factor_extras.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

Manifest manifest_of(const RankEngine& engine, const SavedStates& states, const SaveContents& contents) {
  const EngineProgress progress = engine.states().progress();
  Manifest manifest{.states = states.names(),
                    .steps = progress.steps,
                    .skipped = progress.skipped,
                    .skipped_in_a_row = progress.skipped_in_a_row,
                    .delayed = progress.delayed,
                    .loss_scale = progress.loss_scale,
                    .run = contents.run,
                    .config = contents.config};
  for (const ParamSpec& spec : engine.specs())
    manifest.tensors.push_back({.name = spec.name,
                                .shape = spec.shape,
                                .dtype = spec.trainable ? DType::kFloat32 : spec.dtype,
                                .trainable = spec.trainable,
                                .updates = progress.updates[manifest.tensors.size()],
                                .aliases = spec.aliases});
  return manifest;
}

SaveContents with_factors(SaveContents contents, const RankEngine& engine) {
  for (Extra& extra : factor_extras(engine)) contents.extras.push_back(std::move(extra));
  return contents;
}

}  // namespace

RankImage::RankImage(RankEngine& engine, SaveContents contents)
    : engine_(engine),
      contents_(with_factors(std::move(contents), engine)),
      states_(engine.states().names(), ApartCopies::of(engine)),
      manifest_(manifest_of(engine, states_, contents_)),
      layout_(lay_out_rank(engine.specs(), engine.units(), states_, engine.resources().mesh,
                           engine.resources().comm.rank(), contents_.extras,
                           [&engine](int unit, int state) { return engine.states().contents().keeps(unit, state); })) {}

void RankImage::stream(const std::function<void(std::span<const std::byte>)>& sink) const {
  sink(std::as_bytes(std::span(layout_.header)));
  for (const SavedRange& range : layout_.ranges) {
    const Unit& unit = engine_.units()[static_cast<std::size_t>(range.unit)];
    const Shard mine = range.part;
    const auto size =
        static_cast<std::int64_t>(size_of(engine_.states().contents().saved_dtype(range.unit, range.state)));
    engine_.states().read_shard(range.unit, range.state, [&](std::int64_t first, std::span<const std::byte> elements) {
      const std::int64_t begin = std::max(first, mine.offset);
      const std::int64_t end = std::min(first + std::ssize(elements) / size, mine.offset + mine.numel);
      const Shard here{begin, std::max<std::int64_t>(end - begin, 0)};
      for (const Slice& slice : owned_in(unit, here)) {
        const SlicePart part = overlap(slice, here);
        if (part.numel > 0)
          sink(elements.subspan(static_cast<std::size_t>((part.offset - first) * size),
                                static_cast<std::size_t>(part.numel * size)));
      }
    });
  }
  for (const Extra& extra : contents_.extras) sink(std::span<const std::byte>(extra.bytes));
}

void RankImage::copy_to(std::span<std::byte> memory) const {
  constexpr std::int64_t kGrain = std::int64_t{4} << 20;
  ThreadTeam team(engine_.resources().options.threads);
  std::byte* end = memory.data();
  stream([&](std::span<const std::byte> bytes) {
    team.for_range(0, std::ssize(bytes), kGrain, [&](std::int64_t from, std::int64_t to) {
      std::memcpy(end + from, bytes.data() + from, static_cast<std::size_t>(to - from));
    });
    end += bytes.size();
  });
  ZERO_CHECK(end == memory.data() + memory.size() && std::ssize(memory) == size_bytes());
}

std::string RankImage::file_text(const BlockSums& content) const {
  return to_text(SavedFile{file_name(), content, layout_.slices, layout_.extras});
}

Manifest RankImage::manifest_with(const std::vector<std::string>& file_texts, const std::string& path,
                                  const StateSums& sums) const {
  Manifest manifest = manifest_;
  if (!sums.of_states().empty()) manifest.run[kStateSumsKey] = to_text(sums);
  for (const std::string& text : file_texts) manifest.files.push_back(parse_saved_file(text, path));
  return manifest;
}

}  // namespace zero
