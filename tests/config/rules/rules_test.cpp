#include "app/config/rules/rules.h"

#include <functional>

#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "app/config/load.h"
#include "tests/support/expect_contains.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

std::string rule_broken(const std::function<void(Config&)>& change) {
  LoadedConfig loaded;
  change(loaded.config);
  return message_of<ConfigError>([&] { check_rules(loaded); });
}

bool rules_hold(const std::function<void(Config&)>& change) {
  LoadedConfig loaded;
  change(loaded.config);
  try {
    check_rules(loaded);
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

TEST(Rules, TheDefaultsBreakNone) {
  EXPECT_TRUE(rules_hold([](Config&) {}));
}

TEST(Rules, HeadsDivideWidth) {
  const std::string message = rule_broken([](Config& config) { config.model.heads = 5; });
  EXPECT_TRUE(message.starts_with("model.heads = 5: must divide model.width = 128")) << message;
  EXPECT_NE(message.find("use 1, 2, 4, 8"), std::string::npos);
  EXPECT_TRUE(rules_hold([](Config& config) {
    config.model.name = "mlp";
    config.data.kind = DataKind::kMnist;
    config.model.heads = 5;
  })) << "an mlp has no heads";
}

TEST(Rules, ModelsReadTheirKindOfData) {
  EXPECT_NE(rule_broken([](Config& config) {
              config.data.kind = DataKind::kMnist;
            }).find("model.name = \"gpt2\" does not read it"),
            std::string::npos);
  EXPECT_NE(rule_broken([](Config& config) { config.model.name = "mlp"; }).find("use data.kind mnist, images or csv"),
            std::string::npos);
}

TEST(Rules, ACsvHasTextsOrNumbers) {
  const auto csv = [](const std::string& model, const std::string& text_column) {
    return [=](Config& config) {
      config.model.name = model;
      config.data.kind = DataKind::kCsv;
      config.data.text_column = text_column;
    };
  };
  EXPECT_TRUE(says(rule_broken(csv("bert", "")), "data.text_column = \"\": model.name = \"bert\" reads texts"));
  EXPECT_TRUE(says(rule_broken(csv("bert", "")), "name the column of the texts"));
  EXPECT_TRUE(
      says(rule_broken(csv("mlp", "review")), "data.text_column = \"review\": model.name = \"mlp\" reads numbers"));
  EXPECT_TRUE(rules_hold(csv("bert", "review")));
  EXPECT_TRUE(rules_hold(csv("mlp", "")));
}

TEST(Rules, NamesOfClassesAreTheirNumber) {
  const auto named = [](std::vector<std::string> labels, std::int64_t classes) {
    return [=](Config& config) {
      config.model.name = "bert";
      config.data.kind = DataKind::kTsv;
      config.data.labels = labels;
      config.data.classes = classes;
    };
  };
  EXPECT_TRUE(says(rule_broken(named({"a"}, 0)), "data.labels = [\"a\"]: one class leaves nothing to choose from"));
  EXPECT_TRUE(says(rule_broken(named({"a", "b"}, 3)), "data.classes = 3: data.labels names 2 classes"));
  EXPECT_TRUE(rules_hold(named({"a", "b"}, 2)));
}

TEST(Rules, PicturesHaveOneChannelOrThree) {
  const auto pictures = [](std::int64_t channels) {
    return [channels](Config& config) {
      config.model.name = "cnn";
      config.data.kind = DataKind::kImages;
      config.data.channels = channels;
    };
  };
  EXPECT_TRUE(rules_hold(pictures(1)));
  EXPECT_TRUE(says(rule_broken(pictures(2)), "data.channels = 2: a picture cannot have two channels"));
  EXPECT_TRUE(rules_hold(pictures(3)));
}

TEST(Rules, MeansAreOneOrPerChannel) {
  const auto images = [](std::int64_t channels, const std::vector<double>& mean, const std::vector<double>& deviation) {
    return [=](Config& config) {
      config.model.name = "cnn";
      config.data.kind = channels == 0 ? DataKind::kMnist : DataKind::kImages;
      config.data.channels = std::max<std::int64_t>(channels, 1);
      config.data.images.mean = mean;
      config.data.images.deviation = deviation;
    };
  };
  EXPECT_TRUE(rules_hold(images(3, {}, {})));
  EXPECT_TRUE(rules_hold(images(3, {0.5}, {1, 2, 3})));
  EXPECT_TRUE(rules_hold(images(0, {0.1307}, {0.3081})));
  EXPECT_TRUE(says(rule_broken(images(3, {1, 2}, {})), "data.mean = [1.0, 2.0]: 2 numbers for images of 3 channels\n"));
  EXPECT_TRUE(says(rule_broken(images(3, {1, 2}, {})), "give one number, or three: of red, green and blue"));
  EXPECT_TRUE(
      says(rule_broken(images(0, {}, {1, 2, 3})), "data.std = [1.0, 2.0, 3.0]: 3 numbers for images of 1 channel"));
}

TEST(Rules, MlpHasOneOutputPerClass) {
  const auto digits = [](const std::string& model, std::int64_t classes) {
    return [=](Config& config) {
      config.model.name = model;
      config.data.kind = DataKind::kMnist;
      config.data.classes = classes;
    };
  };
  EXPECT_TRUE(rules_hold(digits("mlp", 0)));
  EXPECT_TRUE(rules_hold(digits("mlp", 10)));
  for (const std::int64_t classes : {9, 62}) {
    const std::string message = rule_broken(digits("mlp", classes));
    EXPECT_TRUE(says(message, "model.sizes = [784, 256, 10]: the last size must be data.classes = ")) << classes;
    EXPECT_TRUE(says(message, "end it with ")) << classes;
  }
  EXPECT_TRUE(rules_hold(digits("cnn", 62))) << "the data sizes its classifier";
  EXPECT_TRUE(says(rule_broken(digits("cnn", 1)), "data.classes = 1: one class leaves nothing to choose from"));
}

TEST(Rules, VocabularyDecidesOnLowerCase) {
  const auto texts = [](std::optional<bool> lower_case, const std::string& vocab) {
    return [=](Config& config) {
      config.model.name = "bert";
      config.data.kind = DataKind::kTsv;
      config.data.vocab = vocab;
      config.data.lower_case = lower_case;
    };
  };
  EXPECT_TRUE(rules_hold(texts(false, "vocab.txt")));
  EXPECT_TRUE(rules_hold(texts(std::nullopt, "")));
  EXPECT_TRUE(says(rule_broken(texts(false, "")), "data.lower_case = false: without data.vocab words are learned"));
}

TEST(Rules, KeyHeadsDivideHeads) {
  const auto llama = [](Config& config) {
    config.model.name = "llama";
    config.model.kv_heads = 3;
  };
  EXPECT_TRUE(says(rule_broken(llama), "model.kv_heads = 3: must divide model.heads = 4"));
}

TEST(Rules, DataContextFitsIntoTheModels) {
  EXPECT_NE(rule_broken([](Config& config) { config.data.context = 65; }), "");
  EXPECT_TRUE(rules_hold([](Config& config) { config.data.context = 64; }));
}

TEST(Rules, WarmupFitsIntoTheSteps) {
  EXPECT_NE(rule_broken([](Config& config) { config.schedule.warmup = 2001; }).find("2000 or less"), std::string::npos);
  EXPECT_TRUE(rules_hold([](Config& config) { config.schedule.warmup = 2000; }));
}

TEST(Rules, DecayRemedyIsPossible) {
  const auto of = [](std::int64_t steps, std::int64_t warmup, std::int64_t decay) {
    return rule_broken([&](Config& config) {
      config.train.steps = steps;
      config.schedule = {.kind = LrKind::kWsd, .warmup = warmup, .decay = decay};
    });
  };
  EXPECT_EQ(of(38, 38, 1),
            "schedule.decay = 1: the warm-up takes all 38 steps, and leaves no step for the decay\n  use "
            "schedule.warmup 37 or less");
  EXPECT_CONTAINS(of(38, 38, 40), "use a schedule.decay below train.steps = 38");
  EXPECT_CONTAINS(of(38, 30, 9), "use 8 or less, 0 for a fifth of them, or schedule.warmup 29 or less");
  EXPECT_TRUE(rules_hold([](Config& config) {
    config.train.steps = 38;
    config.schedule = {.kind = LrKind::kWsd, .warmup = 37, .decay = 1};
  }));
}

TEST(Rules, LowestRateRemedyIsPossible) {
  EXPECT_CONTAINS(rule_broken([](Config& config) { config.optimizer.lr = 0; }), "set an optimizer.lr above it");
}

TEST(Rules, ComparedEvaluationsMustBeThere) {
  const auto best = [](const std::function<void(Config&)>& more) {
    return rule_broken([&](Config& config) {
      config.checkpoint.keep_best = BestMeasure::kLoss;
      more(config);
    });
  };
  EXPECT_TRUE(rules_hold([](Config& config) { config.checkpoint.keep_best = BestMeasure::kLoss; }));
  EXPECT_CONTAINS(best([](Config& config) { config.train.eval_every = 0; }),
                  "checkpoint.keep_best = \"loss\": it compares evaluations, and with train.eval_every = 0 there is no "
                  "evaluation before the end\n  set train.eval_every, or checkpoint.keep_best none");
  EXPECT_CONTAINS(best([](Config& config) { config.data.validation = 0.0; }), "set data.validation");
  EXPECT_CONTAINS(best([](Config& config) { config.checkpoint.every_seconds = 0; }), "set checkpoint.every");
  const auto patient = [](const std::function<void(Config&)>& more) {
    return rule_broken([&](Config& config) {
      config.train.patience = 3;
      more(config);
    });
  };
  EXPECT_TRUE(rules_hold([](Config& config) {
    config.train.patience = 3;
    config.checkpoint.every_seconds = 0;
  }));
  EXPECT_CONTAINS(patient([](Config& config) { config.train.eval_every = 0; }), "train.patience = 3");
  EXPECT_CONTAINS(patient([](Config& config) { config.data.validation = 0.0; }), "or train.patience 0");
  EXPECT_CONTAINS(patient([](Config& config) {
                    config.engine.sync.mode = SyncMode::kAsync;
                    config.engine.sync.servers = 1;
                  }),
                  "leave out sync.servers");
}

TEST(Rules, SchedulesGoDown) {
  EXPECT_NE(rule_broken([](Config& config) { config.schedule.min_lr = 1; }), "");
  EXPECT_NE(rule_broken([](Config& config) { config.schedule.decay = config.train.steps; }), "");
  EXPECT_TRUE(rules_hold([](Config& config) {
    config.schedule.min_lr = 1;
    config.schedule.kind = LrKind::kConstant;
  }));
}

TEST(Rules, OnlyMuonHasGroupRules) {
  const auto with_rule = [](const std::string& name) {
    return [name](Config& config) {
      config.optimizer.name = name;
      config.optimizer.group = {{.parameters = "head.*", .rule = "adamw"}};
    };
  };
  EXPECT_TRUE(rules_hold(with_rule("muon")));
  const std::string message = rule_broken(with_rule("lion"));
  EXPECT_NE(message.find("rule = \"adamw\" of head.* needs optimizer muon"), std::string::npos) << message;
}

TEST(Rules, ThreadRanksRefuseDropout) {
  EXPECT_NE(rule_broken([](Config& config) {
              config.comm.transport = "in_process";
              config.model.dropout = 0.1;
            }).find("share one random generator"),
            std::string::npos);
}

TEST(Rules, OnlyBlockModelsRecompute) {
  EXPECT_NE(rule_broken([](Config& config) {
              config.model.name = "mlp";
              config.data.kind = DataKind::kMnist;
              config.model.checkpoint_activations = true;
            }).find("train.checkpoint_activations = true: model.name = \"mlp\" has no blocks"),
            std::string::npos);
  EXPECT_TRUE(rules_hold([](Config& config) { config.model.checkpoint_activations = true; }));
}

TEST(Rules, TimelineIsJsonInRunFolder) {
  for (const char* name : {"", "timeline.json", "step 2.json"})
    EXPECT_TRUE(rules_hold([&](Config& config) { config.timeline.file = name; })) << name;
  for (const char* name : {"timeline", "config.toml", "/tmp/timeline.json", "../timeline.json", "a/b.json", ".json"}) {
    const std::string message = rule_broken([&](Config& config) { config.timeline.file = name; });
    EXPECT_NE(message.find("run.timeline"), std::string::npos) << name;
    EXPECT_NE(message.find("use timeline.json"), std::string::npos) << name;
  }
}

TEST(Rules, TimelineReplacesNoFileOfRuns) {
  for (const char* name : {"report.json", "config.json", "preprocessor_config.json", "generation_config.json",
                           "classes.json", "tokenizer.json", "tokenizer_config.json", "vocab.json"}) {
    const std::string message = rule_broken([&](Config& config) { config.timeline.file = name; });
    EXPECT_NE(message.find("the run writes another file of this name"), std::string::npos) << name << message;
  }
}

TEST(Rules, OnlyInputsOfCheckpointsAreParked) {
  for (const Tier where : {Tier::kHost, Tier::kDisk}) {
    EXPECT_NE(rule_broken([&](Config& config) {
                config.model.activation_offload = {.tier = where};
                config.engine.offload.disk = {"/tmp"};
              }).find("set train.checkpoint_activations = true"),
              std::string::npos)
        << name_of(where);
    EXPECT_TRUE(rules_hold([&](Config& config) {
      config.model.checkpoint_activations = true;
      config.model.activation_offload = {.tier = where};
      config.engine.offload.disk = {"/tmp"};
    })) << name_of(where);
  }
}

TEST(Rules, ActivationsOnDiskNeedAFolder) {
  const std::string message = rule_broken([](Config& config) {
    config.model.checkpoint_activations = true;
    config.model.activation_offload = {.tier = Tier::kDisk};
  });
  EXPECT_NE(message.find("train.offload_activations = \"disk\": no folder for the disk tier is set"), std::string::npos)
      << message;
}

// With several micro-batches.
TEST(Rules, Fp32SumsNeedReduceEach) {
  LoadedConfig loaded;
  loaded.config.train.accumulate = 2;
  loaded.config.engine.reduce = Reduce::kLast;
  loaded.config.engine.dtype = DType::kFloat16;
  loaded.config.engine.reduce_dtype = DType::kFloat32;
  const std::string error = message_of<ConfigError>([&] { check_rules(loaded); });
  EXPECT_NE(error.find("train.reduce_dtype"), std::string::npos) << error;
  loaded.config.engine.reduce = Reduce::kEach;
  EXPECT_NO_THROW(check_rules(loaded));
}

TEST(Rules, SharesFitWhatElseIsAsked) {
  const auto error_of = [](const std::function<void(Config&)>& change) {
    LoadedConfig loaded;
    change(loaded.config);
    return message_of<ConfigError>([&] { check_rules(loaded); });
  };
  EXPECT_NE(error_of([](Config& config) { config.train.share.most = 8; }).find("train.share_most"), std::string::npos);
  const auto elastic = [](Config& config) {
    config.train.share = {.kind = ShareKind::kGiven, .given = {6, 2}};
    config.run.min_ranks = 1;
  };
  EXPECT_NE(error_of(elastic).find("train.share = [6, 2]: run.min_ranks"), std::string::npos);
  const auto offloaded = [](Config& config) {
    config.train.share.kind = ShareKind::kMeasured;
    config.model.checkpoint_activations = true;
    config.model.activation_offload = {.tier = Tier::kHost};
  };
  EXPECT_NE(error_of(offloaded).find("train.share_most"), std::string::npos);
  LoadedConfig bounded;
  offloaded(bounded.config);
  bounded.config.train.share.most = 8;
  EXPECT_NO_THROW(check_rules(bounded));
}

TEST(Rules, CodecNeedsTrafficAndExactShards) {
  const auto gathers = [](Config& config) { config.engine.wire.gather = WireCodec::kInt8; };
  const auto reduces = [](Config& config) { config.engine.wire.reduce = WireCodec::kInt4; };
  const auto with = [](const std::function<void(Config&)>& codec, const std::function<void(Config&)>& change) {
    return rule_broken([&](Config& config) {
      codec(config);
      change(config);
    });
  };
  EXPECT_TRUE(rules_hold(gathers));
  EXPECT_TRUE(rules_hold(reduces));
  EXPECT_TRUE(
      with(gathers, [](Config& config) {
        config.engine.stage = 1;
      }).starts_with("comm.gather_wire = \"int8\": at stage 1 a codec would round the parameters that a rank keeps"));
  EXPECT_TRUE(rules_hold([&](Config& config) {
    reduces(config);
    config.engine.stage = 1;
  }));
  EXPECT_TRUE(with(reduces, [](Config& config) {
                config.engine.group = 1;
              }).starts_with("comm.reduce_wire = \"int4\": each rank holds a whole copy of the model"));
  EXPECT_TRUE(with(reduces, [](Config& config) {
                config.local.on = true;
              }).starts_with("comm.reduce_wire = \"int4\": each rank holds a whole copy of the model"));
  EXPECT_TRUE(with(gathers, [](Config& config) {
                config.engine.sync.servers = 1;
              }).starts_with("comm.gather_wire = \"int8\": servers and workers exchange"));
  const auto outer = [](Config& config) { config.engine.wire.outer = WireCodec::kInt8; };
  EXPECT_TRUE(rule_broken(outer).starts_with(
      "comm.outer_wire = \"int8\": the ranks hold one copy of the model, so no copies exchange gradients"));
  EXPECT_TRUE(rules_hold([&](Config& config) {
    outer(config);
    config.local.on = true;
  }));
}

TEST(Rules, ShareOfElementsNeedsTopK) {
  LoadedConfig loaded;
  loaded.config.local.on = true;
  loaded.config.engine.wire.outer = WireCodec::kInt8;
  loaded.config.comm.topk_share = 0.1;
  loaded.origins["comm.outer_topk"] = "command line";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { check_rules(loaded); }),
                   "comm.outer_topk = 0.1: comm.outer_wire = \"int8\" sends all elements"));
  loaded.config.comm.topk = true;
  EXPECT_NO_THROW(check_rules(loaded));
  loaded.config.local.on = false;
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { check_rules(loaded); }),
           "comm.outer_wire = \"topk\": the ranks hold one copy of the model, so no copies exchange gradients"));
}

TEST(Rules, RefusesKeysThatExcludeLocalSteps) {
  const auto broken = [](const std::function<void(Config&)>& change) {
    return rule_broken([&](Config& config) {
      config.local.on = true;
      change(config);
    });
  };
  EXPECT_TRUE(rules_hold([](Config& config) { config.local.on = true; }));
  EXPECT_TRUE(broken([](Config& config) { config.engine.ema = 0.9; }).starts_with("train.ema = 0.9"));
  EXPECT_TRUE(
      broken([](Config& config) { config.engine.delayed_update = true; }).starts_with("zero.delayed_update = true"));
  EXPECT_TRUE(broken([](Config& config) {
                config.optimizer.name = "adafactor";
              }).starts_with("optimizer.name = \"adafactor\""));
  EXPECT_TRUE(
      broken([](Config& config) { config.train.share.kind = ShareKind::kMeasured; }).starts_with("train.share"));
  EXPECT_TRUE(broken([](Config& config) {
                config.train.share = {.kind = ShareKind::kGiven, .given = {7, 5}};
              }).starts_with("train.share"));
}

TEST(Rules, AverageExcludesDelayedUpdate) {
  const std::string broken = rule_broken([](Config& config) {
    config.engine.ema = 0.9;
    config.engine.delayed_update = true;
  });
  EXPECT_TRUE(broken.starts_with("zero.delayed_update = true: the average of the weights (train.ema = 0.9)")) << broken;
}

TEST(Rules, OuterKeysNeedLocalSteps) {
  LoadedConfig loaded;
  loaded.config.local.steps = 20;
  EXPECT_NO_THROW(check_rules(loaded)) << "nobody gave it";
  loaded.origins["sync.local_steps"] = "config.toml:3";
  const std::string message = message_of<ConfigError>([&] { check_rules(loaded); });
  EXPECT_TRUE(says(message, "config.toml:3: sync.local_steps = 20: only sync.mode local has an outer step")) << message;
  loaded.origins["sync.mode"] = "command line";
  EXPECT_NO_THROW(check_rules(loaded)) << "the command line has overruled the file's mode";
  loaded.config.local.on = true;
  EXPECT_NO_THROW(check_rules(loaded));
}

// Secondary groups also need shards of equal size.
TEST(Rules, SecondaryGroupsNeedStageThree) {
  const auto broken = [](const std::function<void(Config&)>& change) {
    return rule_broken([&](Config& config) {
      config.engine.secondary_group = 2;
      change(config);
    });
  };
  EXPECT_TRUE(rules_hold([](Config& config) { config.engine.secondary_group = 2; }));
  EXPECT_TRUE(says(broken([](Config& config) { config.engine.stage = 2; }), "zero.secondary_group = 2: at stage 2"));
  EXPECT_TRUE(says(broken([](Config& config) { config.engine.secondary_group = 1; }), "use zero.stage 2"));
  EXPECT_TRUE(says(broken([](Config& config) { config.engine.sync.servers = 1; }), "servers"));
  EXPECT_TRUE(says(broken([](Config& config) { config.local.on = true; }), "train apart"));
  EXPECT_TRUE(says(broken([](Config& config) { config.engine.shards = Cut::kWeighted; }), "zero.shards range"));
}

TEST(Rules, RefusesKeysThatExcludeServers) {
  const auto broken = [](const std::function<void(Config&)>& change) {
    return rule_broken([&](Config& config) {
      config.engine.sync.servers = 1;
      change(config);
    });
  };
  EXPECT_TRUE(rules_hold([](Config& config) { config.engine.sync.servers = 1; }));
  EXPECT_TRUE(broken([](Config& config) { config.engine.stage = 1; }).starts_with("zero.stage = 1"));
  EXPECT_TRUE(broken([](Config& config) { config.engine.group = 1; }).starts_with("zero.group = 1"));
  EXPECT_TRUE(broken([](Config& config) { config.run.min_ranks = 2; }).starts_with("run.min_ranks = 2"));
  EXPECT_TRUE(broken([](Config& config) { config.timeline.file = "t.json"; }).starts_with("run.timeline"));
  EXPECT_TRUE(broken([](Config& config) { config.engine.dtype = DType::kFloat16; }).starts_with("train.dtype"));
  EXPECT_TRUE(broken([](Config& config) {
                config.health.non_finite = HealthAction::kRewind;
              }).starts_with("health.non_finite"));
}

TEST(Rules, RefusesCutsWithConflictingKeys) {
  const auto broken = [](const std::string& shards, const std::function<void(Config&)>& change) {
    return rule_broken([&](Config& config) {
      config.engine.shards = cut_of(shards);
      change(config);
    });
  };
  for (const char* shards : {"whole", "hash", "weighted"}) {
    EXPECT_TRUE(rules_hold([&](Config& config) { config.engine.shards = cut_of(shards); })) << shards;
    EXPECT_TRUE(rules_hold([&](Config& config) {
      config.engine.shards = cut_of(shards);
      config.engine.sync.servers = 2;
    })) << shards;
  }
  EXPECT_NE(broken("hash", [](Config& config) { config.engine.stage = 2; }).find("use zero.stage 3"),
            std::string::npos);
  EXPECT_NE(broken("hash", [](Config& config) { config.optimizer.name = "muon"; }).find("use whole"),
            std::string::npos);
}

// Weights also need a fixed number of ranks.
TEST(Rules, WeightsNeedWeightedShards) {
  const auto broken = [](const std::string& shards, const std::function<void(Config&)>& change) {
    return rule_broken([&](Config& config) {
      config.engine.shards = cut_of(shards);
      config.engine.shard_weights = {2, 1};
      change(config);
    });
  };
  EXPECT_NE(broken("hash", [](Config&) {}).find("set zero.shards weighted"), std::string::npos);
  EXPECT_NE(broken("weighted", [](Config& config) { config.run.min_ranks = 1; }).find("leave out run.min_ranks"),
            std::string::npos);
}

// A state of weighted shards is on one tier.
TEST(Rules, WeightedShardsRefuseCodecsAndSplits) {
  const auto broken = [](const std::function<void(Config&)>& change) {
    return rule_broken([&](Config& config) {
      config.engine.shards = Cut::kWeighted;
      change(config);
    });
  };
  EXPECT_NE(broken([](Config& config) { config.engine.wire.reduce = WireCodec::kInt8; }).find("leave the codec out"),
            std::string::npos);
  EXPECT_TRUE(broken([](Config& config) {
                config.engine.offload.fractions.optimizer = {.host = 0.5};
              }).starts_with("zero.optimizer"));
  EXPECT_NE(broken([](Config& config) { config.engine.offload.disk = {"/tmp"}; }).find("set zero.placement device"),
            std::string::npos);
  EXPECT_TRUE(rules_hold([](Config& config) {
    config.engine.shards = Cut::kWeighted;
    config.engine.offload.disk = {"/tmp"};
    config.engine.offload.fractions.optimizer = {.disk = 1};
  }));
}

TEST(Rules, StaleVersionsAreLimited) {
  LoadedConfig loaded;
  loaded.config.engine.sync = {.mode = SyncMode::kStale, .servers = 1, .staleness = 1001};
  loaded.origins["sync.staleness"] = "config.toml:3";
  EXPECT_TRUE(
      says(message_of<ConfigError>([&] { check_rules(loaded); }),
           "config.toml:3: sync.staleness = 1001: servers keep that many older versions of the weights\n  use at "
           "most 1000"));
}

TEST(Rules, ServerKeysNeedTheirModes) {
  LoadedConfig loaded;
  loaded.config.engine.sync.staleness = 2;
  loaded.origins["sync.staleness"] = "config.toml:3";
  EXPECT_TRUE(says(message_of<ConfigError>([&] { check_rules(loaded); }),
                   "config.toml:3: sync.staleness = 2: with sync.mode sync no gradient is stale"));
  loaded.origins["sync.mode"] = "command line";
  EXPECT_NO_THROW(check_rules(loaded)) << "the command line has overruled the file's mode";
  loaded.config.engine.sync.mode = SyncMode::kAsync;
  settle_defaults(loaded);
  EXPECT_EQ(loaded.config.engine.sync.servers, 1);
  EXPECT_NO_THROW(check_rules(loaded));
}

TEST(Rules, ARewindNeedsCheckpoints) {
  const auto without = [](Config& config) { config.checkpoint.every_seconds = 0; };
  EXPECT_TRUE(rules_hold([&](Config& config) {
    without(config);
    config.health.spike = HealthAction::kSkip;
    config.health.on_corruption = HealthAction::kRewind;
  })) << "nothing is compared";
  for (const auto& [key, change] : std::vector<std::pair<std::string, std::function<void(HealthOptions&)>>>{
           {"health.spike", [](HealthOptions& health) { health.spike = HealthAction::kRewind; }},
           {"health.non_finite", [](HealthOptions& health) { health.non_finite = HealthAction::kRewind; }},
           {"health.on_corruption", [](HealthOptions& health) {
              health.check_replicas = 10;
              health.on_corruption = HealthAction::kRewind;
            }}}) {
    const std::string message = rule_broken([&](Config& config) {
      without(config);
      change(config.health);
    });
    EXPECT_TRUE(message.starts_with(key + " = \"rewind\": there are no checkpoints to return to")) << message;
    EXPECT_TRUE(rules_hold([&](Config& config) { change(config.health); })) << "with checkpoints";
  }
}

}  // namespace
}  // namespace zero
