#include "zero/checkpoint/load.h"

#include <atomic>
#include <cstdio>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "zero/base/error/error.h"

#include "tests/checkpoint/saved_model.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

[[maybe_unused]] const bool sampled = sample_properties(25);  // all pairs of 5 worlds; in 100 cases, of 8

// The last states of each rank.
using End = std::vector<std::vector<std::uint32_t>>;

// Trains to step `to`. Without `resumes` it saves after step `save_at`; with it, it loads that checkpoint first.
End run(const Cell& cell, const std::filesystem::path& path, int save_at, int to, bool resumes) {
  End end(static_cast<std::size_t>(cell.world));
  on_ranks(cell.world, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(cell.dtype), options_of(cell));
    if (resumes) {
      load_checkpoint(model.engine(), path);
    } else {
      train_steps(model, 0, save_at, cell.accumulate);
      save_now(model.engine(), path);
    }
    train_steps(model, save_at, to, cell.accumulate);
    end[static_cast<std::size_t>(comm.rank())] = state_bits(model.engine());
  });
  return end;
}

// The elements that a model of these types loads: full precision for trained parameters, their own type for frozen
// ones.
Elements taken_by(Elements all, const std::vector<ParamSpec>& specs) {
  for (const ParamSpec& spec : specs) {
    if (spec.trainable || spec.dtype == DType::kFloat32) continue;
    for (std::uint32_t& bits : all.at(spec.name + "/0"))
      bits = std::bit_cast<std::uint32_t>(with_type_of(spec.dtype, [&]<typename T>(std::type_identity<T>) {
        return to_float(rounded_to<T>(std::bit_cast<float>(bits)));
      }));
  }
  return all;
}

std::vector<ParamSpec> in_type(DType dtype, std::vector<ParamSpec> specs) {
  for (ParamSpec& spec : specs) spec.dtype = dtype;
  return specs;
}

TEST(LoadCheckpointSlowOnAnyDevice, ResumeGivesUninterruptedBits) {
  const TemporaryFolder folder, disk;
  OffloadOptions on_disk{
      .fractions = {.parameter = {.disk = 1}, .gradient = {.host = 0.5}, .optimizer = {.host = 0.3, .disk = 0.7}},
      .disk = {disk.path().string()}};
  OffloadOptions moments_on_disk{.fractions = {.optimizer = {.disk = 1}}, .disk = {disk.path().string()}};
  int n = 0;
  Sweep sweep(11);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int world : {1, 2, 3}) {
      for (int stage = 0; stage <= 3; ++stage) {
        for (const int accumulate : {1, 2}) {
          for (const bool offload : {false, true}) {
            if (offload && stage < 1) continue;
            if (!sweep.takes_next()) continue;
            const Cell cell{world, stage, dtype, accumulate,
                            offload ? (stage == 3 ? on_disk : moments_on_disk) : OffloadOptions{}};
            const auto path = folder / std::to_string(n++);
            const End whole = run(cell, path, 3, 6, false), resumed = run(cell, path, 3, 6, true);
            EXPECT_EQ(resumed, whole) << "world " << world << ", stage " << stage << ", " << name_of(dtype)
                                      << ", accumulate " << accumulate << (offload ? ", off the device" : "");
          }
        }
      }
    }
  }
}

TEST(LoadCheckpointSlowOnAnyDevice, AnySettingLoadsAnyOther) {
  const TemporaryFolder folder, disk;
  const OffloadOptions on_disk{.fractions = {.optimizer = {.disk = 1}}, .disk = {disk.path().string()}};
  const int largest = in_full_tier() ? 8 : 5;
  int n = 0;
  std::set<std::pair<int, int>> pairs;
  const bool held = rc::check("save N, load M, save: the same tensors", [&] {
    // Pairs are taken in turn, because random pairs would omit half of them.
    const int from = n / 2 / largest % largest + 1, to = n / 2 % largest + 1;
    pairs.emplace(from, to);
    RC_LOG() << from << " ranks to " << to;
    const int stage_from = *rc::gen::inRange(0, 4), stage_to = *rc::gen::inRange(0, 4);
    const auto placed = [&](int stage) {
      return stage > 0 && *rc::gen::arbitrary<bool>() ? on_disk : OffloadOptions{};
    };
    const OffloadOptions offload_from = placed(stage_from), offload_to = placed(stage_to);
    const auto any_type = [] { return *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16); };
    const DType dtype_from = any_type(), dtype_to = any_type();
    std::vector<ParamSpec> specs;
    const int count = *rc::gen::inRange(1, 6);
    for (int i = 0; i < count; ++i)
      specs.push_back({.name = "p" + std::to_string(i),
                       .shape = {*rc::gen::inRange<std::int64_t>(0, 40), *rc::gen::inRange<std::int64_t>(1, 20)},
                       .trainable = i == 0 || *rc::gen::inRange(0, 4) > 0,
                       .own_unit = *rc::gen::arbitrary<bool>()});
    specs.front().shape = {5, 3};  // so the model has a trained parameter
    for (ParamSpec& spec : specs) {
      for (int tied = *rc::gen::inRange(0, 3); tied > 0; --tied)
        spec.aliases.push_back("head" + std::to_string(tied) + "." + spec.name);
    }
    const auto first = folder / std::to_string(n++), second = folder / std::to_string(n++);
    on_ranks(from, [&](Communicator& comm) {
      ScriptedModel model(comm, in_type(dtype_from, specs),
                          options_of({.world = from, .stage = stage_from, .offload = offload_from}));
      model.train(0);
      model.train(1);
      save_now(model.engine(), first);
    });
    on_ranks(to, [&](Communicator& comm) {
      ScriptedModel model(comm, in_type(dtype_to, specs),
                          options_of({.world = to, .stage = stage_to, .offload = offload_to}));
      load_checkpoint(model.engine(), first);
      save_now(model.engine(), second);
    });
    RC_ASSERT(taken_by(elements(first), in_type(dtype_to, specs)) == elements(second));
    for (const auto& path : {first, second}) {
      const CheckpointReader reader(path);
      for (const ParamSpec& spec : specs) {
        const SavedTensor& saved = reader.manifest().tensors[static_cast<std::size_t>(reader.find(spec.name))];
        RC_ASSERT(saved.aliases == spec.aliases);
      }
    }
  });
  EXPECT_TRUE(held);
  EXPECT_EQ(std::ssize(pairs), largest * largest);
}

// Counts the bytes that the kernel reads.
class CountedReads : public FileCalls {
 public:
  mutable std::atomic<std::int64_t> bytes{0};
  ssize_t read(int fd, std::span<std::byte> into, std::int64_t offset) const override {
    const ssize_t count = FileCalls::read(fd, into, offset);
    bytes += std::max<ssize_t>(count, 0);
    return count;
  }
};

// Three units with 32 MiB a state, and a small one. A rank's part of a large unit has several blocks of 4 MiB.
std::vector<ParamSpec> large_specs() {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 3; ++i)
    specs.push_back({.name = "h." + std::to_string(i) + ".weight", .shape = {2048, 4096}, .own_unit = true});
  specs.push_back({.name = "ln_f.bias", .shape = {100}, .own_unit = true});
  return specs;
}

TEST(LoadCheckpointFull, RankReadsItsPartAndEdges) {
  const TemporaryFolder folder;
  constexpr int kSavers = 2;
  on_ranks(kSavers, [&](Communicator& comm) {
    ScriptedModel model(comm, large_specs(), options_of({.world = kSavers}));
    save_now(model.engine(), folder / "c");
  });
  const Manifest manifest = read_manifest(folder / "c");
  const std::int64_t manifest_bytes = static_cast<std::int64_t>(std::filesystem::file_size(folder / "c/manifest.json"));
  struct Reader {
    int world, stage;
    DType dtype = DType::kFloat32;
    double most = 1.5;
  };
  // At stage 1 each rank holds all parameters, a third of these bytes. bf16 parameters are read twice: as parameters
  // and as masters.
  for (const auto& [world, stage, dtype, most] :
       {Reader{1, 3}, Reader{2, 3}, Reader{3, 3}, Reader{4, 3}, Reader{2, 1}, Reader{2, 3, DType::kBFloat16, 2.0}}) {
    std::atomic<std::int64_t> total{0};
    on_ranks(world, [&](Communicator& comm) {
      ScriptedModel model(comm, in_type(dtype, large_specs()), options_of({.world = world, .stage = stage}));
      const CountedReads calls;
      load_checkpoint(model.engine(), folder / "c", calls);
      const std::int64_t read = calls.bytes - manifest_bytes;
      // A rank's state of a unit is one range of elements, in at most two files. Each file adds two ends.
      std::int64_t held = 0, ends = 0;
      for (const Unit& unit : model.engine().units()) {
        for (int state = 0; state < model.engine().states().contents().num_saved_states(unit.index); ++state) {
          const int passes = state == 0 && dtype == DType::kBFloat16 ? 2 : 1;
          held += passes * model.engine().states().contents().held(unit.index, state).numel * 4;
          ends += passes * 2 * kSavers;
        }
      }
      EXPECT_GE(read, held / 100 * 99) << "only the padding of the last rank is not read";
      EXPECT_LE(read, held + ends * kSumBlockBytes);
      total += read;
    });
    const double ratio = static_cast<double>(total) / static_cast<double>(manifest.size_bytes());
    std::printf("%d ranks (stage %d, %s) read %.2f times the bytes that %d saved\n", world, stage,
                std::string(name_of(dtype)).c_str(), ratio, kSavers);
    EXPECT_LE(ratio, most);
  }
}

TEST(LoadCheckpointOnAnyDevice, Bf16TakesTheFp32Master) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(DType::kFloat32, false), options_of({}));
    train_steps(model, 0, 2, 1);
    save_now(model.engine(), folder / "a");
    ScriptedModel other(comm, small_specs(DType::kBFloat16, false), options_of({}));
    load_checkpoint(other.engine(), folder / "a");
    EXPECT_EQ(other.engine().states().progress().steps, 2);
    save_now(other.engine(), folder / "b");
  });
  EXPECT_EQ(elements(folder / "a"), elements(folder / "b"));
}

TEST(LoadCheckpointOnAnyDevice, CountsComeBackForEveryParameter) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    train_steps(model, 0, 3, 1);
    save_now(model.engine(), folder / "a");
    ScriptedModel other(comm, small_specs(), options_of({}));
    load_checkpoint(other.engine(), folder / "a");
    EXPECT_EQ(other.engine().states().progress(), model.engine().states().progress());
    EXPECT_EQ(other.engine().states().progress().updates[static_cast<std::size_t>(model.param_named("h.0.weight"))], 2);
  });
}

TEST(LoadCheckpointOnAnyDevice, DelayedUpdateContinuesAlike) {
  const TemporaryFolder folder;
  const Cell cell{.stage = 2, .delayed_update = true};
  const End whole = run(cell, folder / "a", 3, 6, false), resumed = run(cell, folder / "a", 3, 6, true);
  EXPECT_EQ(resumed, whole);
}

TEST(LoadCheckpointOnAnyDevice, RefusesAnotherModelBeforeChanges) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    train_steps(model, 0, 2, 1);
    save_now(model.engine(), folder / "a");
  });
  const auto refused = [&](std::vector<ParamSpec> specs, AttachOptions options, const std::string& reason) {
    const auto ends = ends_of_ranks(2, [&](Communicator& comm) {
      ScriptedModel model(comm, specs, options);
      const auto before = state_bits(model.engine());
      try {
        load_checkpoint(model.engine(), folder / "a");
      } catch (const ConfigError&) {
        EXPECT_EQ(state_bits(model.engine()), before);
        throw;
      }
    });
    for (const std::string& end : ends) EXPECT_NE(end.find(reason), std::string::npos) << reason << " in: " << end;
  };
  auto specs = small_specs();
  specs[0].shape = {11, 6};
  refused(specs, options_of({}), "wte has shape [11, 5], and the model has [11, 6]");
  specs = small_specs();
  specs[0].name = "embedding";
  refused(specs, options_of({}), "has no embedding");
  specs = small_specs();
  specs.pop_back();
  refused(specs, options_of({}), "holds ln_f, which the model does not have");
  specs = small_specs();
  specs.back().trainable = false;
  refused(specs, options_of({}), "ln_f is not frozen in the checkpoint, and is in the model");
  AttachOptions sgd = options_of({});
  sgd.optimizer = SgdOptions{.momentum = 0.9};
  refused(
      small_specs(), sgd,
      "its optimizer keeps [parameter, exp_avg, exp_avg_sq], and this optimizer keeps [parameter, momentum_buffer]");
}

TEST(LoadCheckpointOnAnyDevice, DamageIsReportedByAll) {
  const TemporaryFolder folder;
  on_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    save_now(model.engine(), folder / "a");
  });
  std::fstream file(folder / "a/rank-00001.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-3, std::ios::end);
  file.put('\x55');
  file.close();
  const auto ends = ends_of_ranks(2, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({}));
    load_checkpoint(model.engine(), folder / "a");
  });
  for (const std::string& end : ends) EXPECT_NE(end.find("differ from the saved bytes"), std::string::npos) << end;
}

TEST(LoadCheckpointOnAnyDevice, RefusedWithinAStep) {
  const TemporaryFolder folder;
  on_ranks(1, [&](Communicator& comm) {
    ScriptedModel model(comm, small_specs(), options_of({.world = 1}));
    save_now(model.engine(), folder / "a");
    model.forward(model.all_units());
    model.backward(model.all_units(), 0, 0);
    EXPECT_THROW(load_checkpoint(model.engine(), folder / "a"), ConfigError);
    EXPECT_THROW(save_now(model.engine(), folder / "b"), ConfigError);
    model.engine().step(0.01);
    EXPECT_NO_THROW(save_now(model.engine(), folder / "b"));
  });
}

}  // namespace
}  // namespace zero
