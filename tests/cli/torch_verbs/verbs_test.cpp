#include <algorithm>

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/support/expect_contains.h"
#include "tests/support/occurrences.h"

namespace zero {
namespace {

class Command : public testing::Test {
 protected:
  Folder folder_;
};

TEST_F(Command, ShowsVerbsOnOneScreen) {
  for (const char* arguments : {"", "--help", "-h", "help"}) {
    const Ran ran = folder_.zero(arguments);
    EXPECT_EQ(ran.status, 0) << arguments;
    EXPECT_LT(count_lines(ran.output), 50);
    EXPECT_CONTAINS(ran.output, "Exit status: 0 done; 1 `zero doctor` found");
    EXPECT_CONTAINS(ran.output, "4 a read or write failed, or a GPU did");
    for (const char* verb : {"train", "launch", "plan", "generate", "inspect", "report", "compare", "verify", "bench",
                             "doctor", "convert", "completion", "man"}) {
      EXPECT_NE(ran.output.find(std::string("\n  ") + verb), std::string::npos) << verb;
    }
  }
}

TEST_F(Command, HelpFitsSixtyLines) {
  for (const char* verb :
       {"train", "launch", "plan", "generate", "inspect", "bench", "bench optimizer", "bench comm", "bench disk",
        "bench step", "report", "compare", "verify", "doctor", "convert", "completion", "man"}) {
    const Ran ran = folder_.zero(std::string(verb) + " --help");
    EXPECT_EQ(ran.status, 0) << verb << ran.errors;
    EXPECT_GT(count_lines(ran.output), 3) << verb;
    EXPECT_LT(count_lines(ran.output), 60) << verb;
    EXPECT_EQ(ran.errors, "") << verb;
  }
}

TEST_F(Command, HelpVerbIsTheVerbsHelp) {
  EXPECT_EQ(folder_.zero("help train").output, folder_.zero("train --help").output);
  EXPECT_EQ(folder_.zero("help trian").status, 2);
}

TEST_F(Command, VersionIsOneLine) {
  EXPECT_EQ(folder_.zero("--version").output, "zero.cpp " ZERO_VERSION "\n");
}

TEST_F(Command, UnknownVerbSuggestsTheNearest) {
  const Ran ran = folder_.zero("trian");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(ran.errors.starts_with("zero trian: unknown verb\n  did you mean 'train'?")) << ran.errors;
  EXPECT_EQ(ran.output, "");
}

TEST_F(Command, UnknownFlagSuggestsTheNearest) {
  const Ran ran = folder_.zero("doctor --jsn");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.errors, "zero doctor: --jsn: unknown flag\n  did you mean '--json'? see `zero doctor --help`\n");
}

TEST_F(Command, MisspeltVersionIsRecognisedAnywhere) {
  EXPECT_EQ(folder_.zero("--verion").errors,
            "zero --verion: unknown flag\n  did you mean '--version'? `zero --help` lists verbs and flags\n");
  for (const std::string verb : {"train", "inspect", "generate", "export", "doctor", "plan"}) {
    for (const std::string flag : {" --verion", " --version"}) {
      const Ran ran = folder_.zero(verb + flag);
      EXPECT_EQ(ran.status, 2) << verb;
      EXPECT_NE(ran.errors.find("did you mean `zero --version`?"), std::string::npos) << verb << ran.errors;
    }
  }
  EXPECT_NE(folder_.zero("export --jsn").errors.find("did you mean '--json'?"), std::string::npos)
      << "the unknown flag is reported before missing arguments";
}

TEST_F(Command, AnArgumentTooManyIsRefused) {
  EXPECT_EQ(folder_.zero("inspect a b").status, 2);
}

TEST_F(Command, KeysAreExplainedBySection) {
  const Ran ran = folder_.zero("train --keys zero");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_NE(ran.output.find("stage = 3"), std::string::npos);
  EXPECT_EQ(ran.output.find("[train]"), std::string::npos);
  EXPECT_NE(folder_.zero("train --keys").output.find("[train]"), std::string::npos);
  const Ran one = folder_.zero("train --keys zero.stage");
  EXPECT_EQ(one.output.find("[zero]\n#"), 0U) << one.output << one.errors;
  EXPECT_EQ(one.output.find("device_memory ="), std::string::npos);
  EXPECT_NE(folder_.zero("train --keys stages").errors.find("sections: model data train"), std::string::npos);
  EXPECT_NE(folder_.zero("train --help").output.find("--keys [SECTION]"), std::string::npos);
}

// Mistakes that are found without libtorch. They create no run folder and print at most one screen.
struct BadInput {
  const char* arguments;
  const char* says;
};

class BadTraining : public testing::TestWithParam<BadInput> {};

// No stack trace is printed.
TEST_P(BadTraining, StatusTwoFitsOneScreen) {
  const Folder folder;
  folder.write("input.txt", "text to learn");
  folder.write("empty.txt", "");
  folder.write("c.toml", "[data]\npath = \"input.txt\"\n[train]\nsteps = 5\n[run]\ndir = \"run\"\n");
  folder.write("bad.toml", "[train]\nsteps = 5\nbathc = 3\n");
  folder.write("syntax.toml", "[train\nsteps = 5\n");
  const Ran ran = folder.zero(std::string("train ") + GetParam().arguments);
  EXPECT_EQ(ran.status, 2) << ran.errors;
  EXPECT_NE(ran.errors.find(GetParam().says), std::string::npos) << ran.errors;
  EXPECT_LT(count_lines(ran.errors), 24);
  EXPECT_EQ(ran.output, "");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run"));
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadTraining,
    testing::Values(BadInput{"bad.toml", "bad.toml:3: train.bathc = 3: unknown key\n  did you mean 'train.batch'?"},
                    BadInput{"syntax.toml", "syntax.toml:1:7: not TOML"},
                    BadInput{"none.toml", "none.toml: No such file"},
                    BadInput{"c.toml --zero.stage 4",
                             "command line: zero.stage = 4: out of range\n  allowed: 0, 1, 2, 3"},
                    BadInput{"c.toml -n 0", "-n = 0"}, BadInput{"c.toml -n two", "-n"},
                    BadInput{"c.toml --model.heads 5", "must divide model.width = 128"},
                    BadInput{"c.toml --data.path none.txt", "no such file"},
                    BadInput{"c.toml --data.path empty.txt", "an empty file"},
                    BadInput{"c.toml --optimizer.lr nan", "not a finite number"},
                    BadInput{"c.toml --comm.transport carrier_pigeon", "allowed: auto, in_process"},
                    BadInput{"c.toml --train.global_batch 13 -n 2", "use 12 or 14"},
                    BadInput{"c.toml --train.global_batch 12 --train.batch 6 --train.accumulate 3 -n 2", "= 36"},
                    BadInput{"c.toml --run.dir input.txt", "exists and is not a folder"},
                    BadInput{"c.toml --train.steps", "a value is missing"},
                    BadInput{"c.toml d.toml", "an argument too many"}, BadInput{"", "data.path"}));

TEST_F(Command, TheEnvironmentIsReadAndNamed) {
  const Ran ran = folder_.zero("train", "ZERO_ZERO_STAGE=7");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("ZERO_ZERO_STAGE: zero.stage = 7: out of range"), std::string::npos) << ran.errors;
}

TEST_F(Command, GenerateWantsARun) {
  folder_.write("run/config.toml", "");
  folder_.write("exported/model.safetensors", "");
  for (const auto& [run, reason] :
       {std::pair{"none", "no such folder"}, std::pair{".", "a folder of runs, not a run"},
        std::pair{"run/config.toml", "it is a file; the folder of a run is needed"},
        std::pair{"exported", "only weights, as `zero export` writes them"}, std::pair{"run", "holds no weights"}}) {
    const Ran ran = folder_.zero(std::string("generate ") + run + " --prompt x");
    EXPECT_EQ(ran.status, 2);
    EXPECT_TRUE(ran.errors.starts_with(std::string("zero generate: RUN = ") + run + ": " + reason)) << ran.errors;
  }
}

TEST_F(Command, GenerateWritesNoTextWithoutEnd) {
  folder_.write("run/config.toml", "");
  folder_.write("run/model.safetensors", "");
  for (const char* tokens : {"0", "2147483648", "99999999999999999999"}) {
    const Ran ran = folder_.zero(std::string("generate run --prompt x --tokens ") + tokens, "timeout 60");
    EXPECT_EQ(ran.status, 2) << tokens;
    EXPECT_CONTAINS(ran.errors, "out of range");
  }
}

TEST_F(Command, ExportProtectsTheRunsFiles) {
  EXPECT_CONTAINS(folder_.zero("export run -o ''").errors, "-o = \"\": no file is given");
  folder_.write("run/config.toml", "");
  folder_.write("run/model.safetensors", "");
  EXPECT_CONTAINS(folder_.zero("export run -o run").errors, "run/model.safetensors belongs to a run");
  folder_.write("half/config.toml", "");
  folder_.write("half/metrics.jsonl", "");
  for (const char* output : {"half", "half/model_ema.safetensors"}) {
    const Ran ran = folder_.zero(std::string("export run -o ") + output);
    EXPECT_EQ(ran.status, 2);
    EXPECT_CONTAINS(ran.errors, "half is the folder of a run, which would seem finished");
  }
}

TEST_F(Command, PlanRefusesAWorldOfNone) {
  EXPECT_NE(folder_.zero("plan --world 0").errors.find("--world = 0"), std::string::npos);
}

}  // namespace
}  // namespace zero
