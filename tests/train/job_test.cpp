#include "app/cli/torch_verbs/job.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"

#include "app/train/tasks/model_kind.h"
#include "tests/support/environment_variable.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero::cli {
namespace {

TEST(Job, EachPartGetsItsOwnSection) {
  Config config;
  config.model.width = 32;
  config.model.init = "init.safetensors";
  config.data = {.kind = DataKind::kCsv, .path = "table.csv", .order = Order::kSequential};
  config.train.steps = 7;
  config.train.accumulate = 3;
  config.engine.reduce = Reduce::kLast;
  config.engine.dtype = DType::kBFloat16;
  config.engine.clip = 0.5;
  config.model.checkpoint_activations = true;
  config.optimizer = {{.lr = 0.25, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.3}, "adamw"};
  config.schedule = {.kind = LrKind::kWsd, .min_lr = 0.01, .warmup = 2, .power = 3, .decay = 4};
  config.engine.stage = 2;
  config.run.dir = "runs/x";
  config.run.threads = 3;
  config.run.tensorboard = true;
  const TrainJob job = make_job(config, 1);
  EXPECT_TRUE(job.tensorboard);
  EXPECT_EQ(job.model.width, 32);
  EXPECT_EQ(job.model.init, "init.safetensors");
  EXPECT_TRUE(job.model.checkpoint_activations);
  EXPECT_EQ(job.data.kind, DataKind::kCsv);
  EXPECT_EQ(job.data.order, Order::kSequential);
  EXPECT_EQ(job.train.steps, 7);
  EXPECT_EQ(job.attach.stage, 2);
  EXPECT_EQ(job.attach.accumulate, 3);
  EXPECT_EQ(job.train.accumulate, 3);
  EXPECT_EQ(job.attach.reduce, Reduce::kLast);
  EXPECT_EQ(job.attach.dtype, DType::kBFloat16);
  EXPECT_EQ(job.attach.clip, 0.5);
  EXPECT_EQ(job.attach.threads, 3);
  const auto& adamw = std::get<AdamW>(job.attach.optimizer);
  EXPECT_EQ(adamw.lr, 0.25);
  EXPECT_EQ(adamw.beta1, 0.8);
  EXPECT_EQ(adamw.beta2, 0.95);
  EXPECT_EQ(adamw.eps, 1e-6);
  EXPECT_EQ(adamw.weight_decay, 0.3);
  EXPECT_EQ(job.schedule.kind, LrKind::kWsd);
  EXPECT_EQ(job.schedule.lr, 0.25);
  EXPECT_EQ(job.schedule.warmup, 2);
  EXPECT_EQ(job.schedule.steps, 7);
  EXPECT_EQ(job.schedule.power, 3);
  EXPECT_EQ(job.schedule.decay, 4);
  EXPECT_EQ(job.run_dir, "runs/x");
}

TEST(Job, PatternsAssignGroupsInOrder) {
  Config config;
  config.optimizer.weight_decay = 0.3;
  EXPECT_TRUE(make_job(config, 1).attach.groups.empty());
  config.optimizer.group = {{.parameters = "h.[01].*", .lr_scale = 0.5},
                            {.parameters = "*.bias", .lr_scale = 2, .weight_decay = 0.1}};
  const AttachOptions options = make_job(config, 1).attach;
  const auto said = [&](const ParamSpec& spec) {
    const ParameterValues values = values_of(options, spec);
    return std::pair(values.lr_scale, values.weight_decay);
  };
  EXPECT_EQ(said({.name = "h.0.weight", .shape = {2, 2}}), std::pair(0.5, 0.3));
  EXPECT_EQ(said({.name = "h.1.bias", .shape = {2}}), std::pair(0.5, 0.0)) << "the first matching group counts";
  EXPECT_EQ(said({.name = "h.2.bias", .shape = {2}}), std::pair(2.0, 0.1));
  EXPECT_EQ(said({.name = "h.2.weight", .shape = {2, 2}}), std::pair(1.0, 0.3)) << "as without groups";
  EXPECT_EQ(said({.name = "ln_f.weight", .shape = {2}}), std::pair(1.0, 0.0));
}

TEST(Job, AdafactorHasItsOwnKeys) {
  Config config;
  config.optimizer.name = "adafactor";
  config.optimizer.beta2_decay = -0.5;
  config.optimizer.eps1 = 1e-4;
  config.optimizer.eps2 = 1e-2;
  config.optimizer.clip = 2;
  const auto given = std::get<AdafactorOptions>(make_job(config, 1).attach.optimizer);
  EXPECT_EQ(given.beta2_decay, -0.5);
  EXPECT_EQ(given.eps1, 1e-4);
  EXPECT_EQ(given.eps2, 1e-2);
  EXPECT_EQ(given.clip, 2);
  const OptimizerKeys of_nobody;
  EXPECT_EQ(of_nobody.beta2_decay, AdafactorOptions{}.beta2_decay);
  EXPECT_EQ(of_nobody.eps1, AdafactorOptions{}.eps1);
  EXPECT_EQ(of_nobody.eps2, AdafactorOptions{}.eps2);
  EXPECT_EQ(of_nobody.clip, AdafactorOptions{}.clip);
}

// Parameter groups may choose another rule.
TEST(Job, MuonTakesHiddenLayersByDefault) {
  Config config;
  config.optimizer.name = "muon";
  config.optimizer.lr = 0.02;
  config.optimizer.momentum = 0.9;
  config.optimizer.nesterov = true;
  config.optimizer.muon_scale = "match_rms_adamw";
  config.optimizer.adamw_lr = 1e-3;
  config.optimizer.group = {{.parameters = "*.first.weight", .rule = "adamw"}, {.parameters = "wpe.*", .rule = "muon"}};
  const AttachOptions attach = make_job(config, 1).attach;
  const auto& muon = std::get<MuonOptions>(attach.optimizer);
  EXPECT_EQ(muon.momentum, 0.9);
  EXPECT_TRUE(muon.nesterov);
  EXPECT_EQ(muon.scale, MuonScale::kMatchRmsAdamW);
  EXPECT_EQ(muon.adamw.lr, 1e-3);
  const MatrixChoice is_matrix = matrices_of(attach);
  const auto takes = [&](const std::string& name, std::vector<std::int64_t> shape, bool own_unit = false) {
    return is_matrix({.name = name, .shape = std::move(shape), .own_unit = own_unit});
  };
  EXPECT_TRUE(takes("h.0.attn.weight", {4, 4}));
  EXPECT_TRUE(takes("conv1.weight", {6, 1, 5, 5}));
  EXPECT_FALSE(takes("h.0.attn.bias", {4}));
  EXPECT_FALSE(takes("wte.weight", {9, 4}, /*own_unit=*/true)) << "an embedding";
  EXPECT_FALSE(takes("lm_head.weight", {9, 4}));
  EXPECT_FALSE(takes("model.classifier.weight", {3, 4}));
  EXPECT_FALSE(takes("layers.first.weight", {4, 4})) << "a group says so";
  EXPECT_TRUE(takes("wpe.weight", {9, 4}, /*own_unit=*/true)) << "a group says so";
  config.optimizer.name = "adamw";
  EXPECT_FALSE(matrices_of(make_job(config, 1).attach).is_matrix) << "other optimizers have no matrices";
}

TEST(Job, LossScaleNeedsFp16) {
  Config config;
  config.engine.loss_scale = LossScaleOptions::fixed(128);
  EXPECT_EQ(make_job(config, 1).attach.loss_scale, std::nullopt);
  config.engine.dtype = DType::kFloat16;
  EXPECT_EQ(make_job(config, 1).attach.dtype, DType::kFloat16);
  EXPECT_FALSE(make_job(config, 1).attach.loss_scale->dynamic);
  EXPECT_EQ(make_job(config, 1).attach.loss_scale->value, 128);
  config.engine.loss_scale.reset();
  EXPECT_TRUE(make_job(config, 1).attach.loss_scale->dynamic);
}

TEST(Job, SumsInFp32OnRequest) {
  Config config;
  EXPECT_EQ(make_job(config, 1).attach.reduce_dtype, std::nullopt);
  config.engine.dtype = DType::kBFloat16;
  config.engine.reduce_dtype = DType::kFloat32;
  EXPECT_EQ(make_job(config, 1).attach.reduce_dtype, DType::kFloat32);
}

TEST(Job, HealthFollowsItsSection) {
  Config config;
  EXPECT_EQ(make_job(config, 1).health.non_finite, HealthAction::kSkip);
  EXPECT_FALSE(make_job(config, 1).health.judges()) << "by default nothing changes";
  config.health = {.non_finite = HealthAction::kStop,
                   .spike = HealthAction::kRewind,
                   .spike_sigma = 4.5,
                   .rewind_batches = 7,
                   .max_rewinds = 2,
                   .check_replicas = 50,
                   .on_corruption = HealthAction::kRewind};
  const HealthOptions health = make_job(config, 1).health;
  EXPECT_EQ(health.non_finite, HealthAction::kStop);
  EXPECT_EQ(health.spike, HealthAction::kRewind);
  EXPECT_EQ(health.spike_sigma, 4.5);
  EXPECT_EQ(health.rewind_batches, 7);
  EXPECT_EQ(health.max_rewinds, 2);
  EXPECT_EQ(health.check_replicas, 50);
  EXPECT_EQ(health.on_corruption, HealthAction::kRewind);
}

TEST(Job, ParksActivationsWhereConfigured) {
  Config config;
  config.engine.offload.disk = {"/nvme0", "/nvme1"};
  config.engine.offload.link_bytes_per_second = 1000;
  EXPECT_FALSE(model_options(config).activation_offload.has_value());
  config.model.activation_offload = {.tier = Tier::kHost};
  EXPECT_EQ(model_options(config).activation_offload->tier, Tier::kHost);
  config.model.activation_offload = {.tier = Tier::kDisk};
  const auto activation_offload = model_options(config).activation_offload.value();
  EXPECT_EQ(activation_offload.tier, Tier::kDisk);
  EXPECT_EQ(activation_offload.disk, config.engine.offload.disk);
  EXPECT_EQ(activation_offload.link_bytes_per_second, 1000);
  EXPECT_FALSE(activation_offload.checksums);
  config.engine.offload.checksums = true;
  EXPECT_TRUE(model_options(config).activation_offload->checksums);
}

// The inputs of three blocks: 2 samples of 32 tokens with 40 features are 10 KiB in fp32, or three pages.
Config offloading_config(Tier tier) {
  Config config;
  config.model.layers = 3;
  config.model.width = 40;
  config.model.context = 64;
  config.data.context = 32;
  config.train.batch = 2;
  config.model.checkpoint_activations = true;
  config.model.activation_offload = {.tier = tier};
  config.engine.offload.disk = {"/nvme0"};
  return config;
}

MemoryBudget bytes(std::int64_t count) {
  return {.kind = MemoryBudget::Kind::kBytes, .bytes = count};
}

// The host budget excludes offloaded activations.
TEST(Job, HostActivationsReduceHostBudget) {
  Config config = offloading_config(Tier::kHost);
  constexpr std::int64_t kInputs = 3 * 2 * 32 * 40 * 4;
  EXPECT_EQ(model_options(config).activation_offload->expected_bytes, kInputs);
  EXPECT_EQ(model_options(config).activation_offload->most_bytes, 0) << "no budget is given";
  config.engine.offload.host_memory = bytes(100'000);
  EXPECT_EQ(model_options(config).activation_offload->most_bytes, kInputs);
  EXPECT_EQ(attach_options(config, 1).offload.host_memory.bytes, 100'000 - kInputs);
  config.engine.dtype = DType::kBFloat16;
  EXPECT_EQ(attach_options(config, 1).offload.host_memory.bytes, 100'000 - kInputs / 2);
  config.engine.device_memory = bytes(50'000);
  EXPECT_EQ(attach_options(config, 1).device_memory.bytes, 50'000) << "without a link, no blocks are needed there";
  config.engine.offload.link_bytes_per_second = 1000;
  EXPECT_EQ(attach_options(config, 1).device_memory.bytes, 50'000 - 3 * 8'192) << "whole pages";
  config.model.activation_offload.reset();
  EXPECT_EQ(attach_options(config, 1).offload.host_memory.bytes, 100'000);
}

TEST(Job, GpuActivationsUseBudgetBlocks) {
  Config config = offloading_config(Tier::kHost);
  config.run.device = "cuda";
  config.engine.device_memory = bytes(90'000);
  config.engine.offload.host_memory = bytes(100'000);
  EXPECT_EQ(attach_options(config, 1).device_memory.bytes, 90'000 - 3 * 12'288) << "three inputs of three pages";
  EXPECT_EQ(attach_options(config, 1).offload.host_memory.bytes, 100'000 - 3 * 2 * 32 * 40 * 4);
  EXPECT_EQ(activation_need(config).device, 3 * 12'288);
  config.model.activation_offload = {.tier = Tier::kDisk};
  EXPECT_EQ(attach_options(config, 1).device_memory.bytes, 90'000 - 12'288) << "one input, in transfer to the host";
  EXPECT_EQ(attach_options(config, 1).offload.host_memory.bytes, 100'000 - 3 * 12'288);
  config.engine.device_memory = bytes(12'287);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { attach_options(config, 1); }), "zero.device_memory"));
}

// The disk budget excludes offloaded activations.
TEST(Job, DiskActivationsReduceDiskBudget) {
  Config config = offloading_config(Tier::kDisk);
  constexpr std::int64_t kInputs = std::int64_t{3} * 3 * 4096;
  config.engine.offload.disk_memory = 100'000;
  config.engine.offload.host_memory = bytes(90'000);
  EXPECT_EQ(model_options(config).activation_offload->most_bytes, kInputs);
  EXPECT_EQ(attach_options(config, 1).offload.disk_memory, 100'000 - kInputs);
  EXPECT_EQ(attach_options(config, 1).offload.host_memory.bytes, 90'000 - kInputs) << "blocks in transfer";
  config.engine.offload.disk_memory = kInputs;
  EXPECT_EQ(attach_options(config, 1).offload.disk_memory, 1) << "0 would be no limit";
}

TEST(Job, RefusesUnfitActivationsWithBytes) {
  const auto refusal = [](const Config& config) { return message_of<ConfigError>([&] { make_job(config, 1); }); };
  Config config = offloading_config(Tier::kHost);
  config.engine.offload.host_memory = bytes(30'719);
  EXPECT_TRUE(says(refusal(config), "zero.host_memory")) << refusal(config);
  EXPECT_TRUE(says(refusal(config), "takes 30720 B of it a rank")) << refusal(config);
  EXPECT_TRUE(says(refusal(config), "train.batch")) << refusal(config);
  config.engine.offload.host_memory = bytes(30'720);
  EXPECT_NO_THROW(make_job(config, 1));
  config = offloading_config(Tier::kDisk);
  config.engine.offload.disk_memory = 36'863;
  EXPECT_TRUE(says(refusal(config), "zero.disk_memory")) << refusal(config);
}

TEST(Job, MomentumIsForSgd) {
  Config config;
  config.optimizer = {{.lr = 0.1, .weight_decay = 0, .momentum = 0.9}, "sgd"};
  EXPECT_EQ(std::get<Sgd>(make_job(config, 1).attach.optimizer).momentum, 0.9);
}

// adamw8bit takes the keys of adamw.
TEST(Job, CodedAdamwTakesAdamwKeys) {
  Config config;
  config.optimizer = {{.lr = 0.25, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.3}, "adamw8bit"};
  const auto rule = std::get<AdamW8bit>(make_job(config, 1).attach.optimizer);
  EXPECT_EQ(rule.lr, 0.25);
  EXPECT_EQ(rule.beta1, 0.8);
  EXPECT_EQ(rule.beta2, 0.95);
  EXPECT_EQ(rule.eps, 1e-6);
  EXPECT_EQ(rule.weight_decay, 0.3);
}

TEST(Job, BudgetsAreTheEngines) {
  for (const MemoryBudget& budget : {MemoryBudget{}, MemoryBudget{.kind = MemoryBudget::Kind::kMin},
                                     MemoryBudget{.kind = MemoryBudget::Kind::kBytes, .bytes = 12345}}) {
    Config config;
    config.engine.device_memory = budget;
    config.engine.offload.host_memory = budget;
    const TrainJob job = make_job(config, 1);
    EXPECT_EQ(job.attach.device_memory, budget);
    EXPECT_EQ(job.attach.offload.host_memory, budget);
  }
}

// Their texts also differ.
TEST(Job, DifferentConfigurationsDifferInHash) {
  Config config;
  const TrainJob a = make_job(config, 1);
  config.train.seed = 5;
  const TrainJob b = make_job(config, 1);
  EXPECT_NE(a.config_hash, b.config_hash);
  EXPECT_NE(a.config_text, b.config_text);
  EXPECT_NE(b.config_text.find("seed = 5"), std::string::npos);
}

TEST(Job, EveryRankHasAThread) {
  Config config;
  EXPECT_GE(attach_options(config, 1).threads, 1);
  EXPECT_EQ(attach_options(config, 1000).threads, 1);
}

// `zero launch --no-bind` on a part of the cores: the ranks share them.
TEST(Job, LauncherSaysWhoseCoresAre) {
  const Config config;
  const int usable = num_usable_cores();
  const auto threads = [&config](const char* bound) {
    const EnvironmentVariable said("ZERO_CORES_BOUND", bound);
    return attach_options(config, 2).threads;
  };
  EXPECT_EQ(threads("1"), usable);
  EXPECT_EQ(threads("0"), std::max(1, usable / 2));
}

// No data is needed if the model's keys suffice.
TEST(Job, PlanNeedsNoData) {
  Config config;
  config.data.path = "nowhere";
  EXPECT_EQ(planned_shape(config).classes, 256) << "bytes";
  EXPECT_EQ(planned_shape(config).context, config.model.context);
  config.data.kind = DataKind::kTokens;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { planned_shape(config); }), "set model.vocab"));
  config.model.vocab = 50257;
  EXPECT_EQ(planned_shape(config).classes, 50257);
  config.model.name = "mlp";
  config.data.kind = DataKind::kMnist;
  EXPECT_EQ(planned_shape(config).features, 784);
  EXPECT_EQ(planned_shape(config).classes, 10);
  config.data.kind = DataKind::kCsv;
  EXPECT_EQ(planned_shape(config).classes, 10) << "as many classes as the model has outputs";
  config.model.sizes.back() = 1;
  EXPECT_EQ(planned_shape(config).classes, 0) << "a number";
}

// The data is read if only it has the shape.
TEST(Job, PlanReadsDataIfNeeded) {
  const TemporaryFolder folder;
  Config config;
  config.model.name = "linear";
  config.data = {.kind = DataKind::kCsv, .path = folder.write("table.csv", "1,2,3\n4,5,6\n7,8,9\n").string()};
  EXPECT_EQ(planned_shape(config).features, 2);
}

// The command refuses by the table of models before libtorch is loaded. This test compares the table with the models.
TEST(Job, TableRowsAreTheModels) {
  const std::map<std::string_view, SampleShape> shapes{
      {"text", {.context = 8, .classes = 256}},
      {"tokens", {.context = 8, .classes = 256}},
      {"mnist", {.features = 784, .height = 28, .width = 28, .classes = 10}},
      {"csv", {.features = 4}},
      {"images", {.features = 768, .channels = 3, .height = 16, .width = 16, .classes = 4}},
      {"tsv", {.context = 8, .classes = 2, .vocab = 20}},
      {"word_order", {.context = 8, .classes = 2, .vocab = 20}}};
  ASSERT_EQ(kModelTable.size(), model_kinds().size());
  for (const ModelKind& kind : model_kinds()) {
    const ModelRow& row = model_row(kind.name);
    for (const auto& [data, shape] : shapes) {
      const bool of_texts = data == "csv" && kind.name == "bert";  // with data.text_column
      EXPECT_EQ(row.reads(data), kind.reads(of_texts ? shapes.at("tsv") : shape)) << kind.name << " " << data;
    }
  }
}

TEST(Job, TextsGiveModelsTheirKeys) {
  Config config;
  config.model = {
      .name = "llama", .hidden = 48, .kv_heads = 2, .rope_theta = 500, .norm_eps = 1e-6, .tie_embeddings = true};
  config.data = {.kind = DataKind::kTsv, .path = "t.tsv", .words = 77, .vocab = "vocab.txt", .lower_case = false};
  config.model.label_smoothing = 0.2;
  const TrainJob job = make_job(config, 1);
  EXPECT_EQ(job.model.hidden, 48);
  EXPECT_EQ(job.model.kv_heads, 2);
  EXPECT_EQ(job.model.rope_theta, 500);
  EXPECT_EQ(job.model.norm_eps, 1e-6);
  EXPECT_TRUE(job.model.tie_embeddings);
  EXPECT_EQ(job.model.label_smoothing, 0.2);
  EXPECT_EQ(job.data.kind, DataKind::kTsv);
  EXPECT_EQ(job.data.words, 77);
  EXPECT_EQ(job.data.vocab, "vocab.txt");
  EXPECT_EQ(job.data.lower_case, false);
}

TEST(Job, CountsEpochOfPresentData) {
  const TemporaryFolder folder;
  Config config;
  config.model.name = "linear";
  config.data = {.kind = DataKind::kCsv, .path = folder.write("table.csv", "1,2,3\n4,5,6\n7,8,9\n").string()};
  config.data.validation = 0.3;
  EXPECT_EQ(samples_of_pass(config), 2) << "one row is held out";
  config.data.path = "nowhere";
  EXPECT_EQ(samples_of_pass(config), std::nullopt);
}

// Local steps are an option of the engine.
TEST(Job, LocalStepsNeedModeLocal) {
  Config config;
  config.local.steps = 7;
  EXPECT_FALSE(make_job(config, 1).attach.local);
  config.local.on = true;
  config.local.outer_lr = 1;
  config.local.outer_momentum = 0.5;
  EXPECT_EQ(make_job(config, 1).attach.local, (LocalSteps{.steps = 7, .outer_lr = 1, .outer_momentum = 0.5}));
  config.local.fragments = 3;
  config.local.overlap = 2;
  config.local.mix = 0.25;
  EXPECT_EQ(make_job(config, 1).attach.local,
            (LocalSteps{.steps = 7, .outer_lr = 1, .outer_momentum = 0.5, .fragments = 3, .overlap = 2, .mix = 0.25}));
}

TEST(Job, CompensationNeedsModeAsync) {
  Config config;
  config.engine.sync = {.mode = SyncMode::kAsync, .servers = 1, .compensation = 0.5};
  EXPECT_EQ(make_job(config, 2).attach.sync.compensation, 0.5);
  config.engine.sync.mode = SyncMode::kStale;
  EXPECT_EQ(make_job(config, 2).attach.sync.compensation, 0);
}

TEST(Job, CodecsAreOptionsOfTheEngine) {
  Config config;
  EXPECT_EQ(make_job(config, 2).attach.wire, WireCodecs{});
  config.engine.wire.gather = WireCodec::kInt4;
  config.engine.wire.reduce = WireCodec::kInt8;
  EXPECT_EQ(make_job(config, 2).attach.wire, (WireCodecs{.gather = WireCodec::kInt4, .reduce = WireCodec::kInt8}));
  config.engine.wire = {};
  config.comm.topk = true;
  config.comm.topk_share = 0.05;
  EXPECT_EQ(make_job(config, 2).attach.wire, (WireCodecs{.outer_topk = 0.05}));
}

}  // namespace
}  // namespace zero::cli
