// Completion scripts and the manual page, which are made from the tables of verbs and options.
#include <gtest/gtest.h>

#include "app/config/options/option.h"
#include "tests/cli/command.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

class Completion : public testing::Test {
 protected:
  // The words that bash offers after `zero WORDS`, one per line. The last of WORDS is incomplete.
  std::string offered(const std::string& words) const {
    folder_.write("zero.bash", folder_.zero("completion bash").output);
    folder_.write("ask.sh", "zero() { '" + std::string(built::kCommand) +
                                "' \"$@\"; }\n. ./zero.bash\nCOMP_WORDS=(zero \"$@\")\nCOMP_CWORD=$#\n_zero\nprintf "
                                "'%s\\n' \"${COMPREPLY[@]}\"\n");
    return shell("bash ask.sh " + words).output;
  }
  Ran shell(const std::string& command) const { return folder_.zero("--version >/dev/null && " + command); }
  bool has(const std::string& program) const { return shell("command -v " + program).status == 0; }
  Folder folder_;
};

TEST_F(Completion, BashOffersVerbsFlagsKeysValues) {
  EXPECT_CONTAINS(offered("tr"), "train\n");
  EXPECT_CONTAINS(offered("export --out"), "--output\n");
  EXPECT_CONTAINS(offered("train --zero.st"), "--zero.stage\n");
  EXPECT_EQ(offered("train --optimizer.name \"\""), "adamw\nadam\nsgd\nlion\nlamb\nadamw8bit\nmuon\nadafactor\n");
  EXPECT_EQ(offered("plan --zero.checksums f"), "false\n");
  EXPECT_EQ(offered("export --zero.st"), "\n") << "it has no keys";
}

// Keys are flags of each verb with a configuration.
TEST_F(Completion, BashOffersWhatTheVerbTakes) {
  for (const char* verb : {"train", "plan", "sweep", "verify", "bench step"})
    EXPECT_CONTAINS(offered(std::string(verb) + " --zero.st"), "--zero.stage\n");
  EXPECT_EQ(offered("train --sec"), "\n") << "the help explains --section.key";
  EXPECT_EQ(("\n" + offered("verify --z")).find("\n--zero\n"), std::string::npos) << "the help names `zero train`";
  EXPECT_EQ(offered("verify --comm"), offered("train --comm"));
  EXPECT_EQ(offered("bench o"), "offload\noptimizer\n");
  EXPECT_EQ(offered("bench disk --dep"), "--depth\n");
  EXPECT_EQ(offered("bench disk --zero.st"), "\n");
  EXPECT_EQ(offered("plan -n"), "-n\n");
}

// zsh loads site-functions/_zero as a function: its first call must complete.
TEST_F(Completion, FirstCallOfZshCompletes) {
  const std::string script = folder_.zero("completion zsh").output;
  EXPECT_CONTAINS(script, "if [[ ${funcstack[1]} == _zero ]]; then _zero \"$@\"; else compdef _zero zero; fi\n");
}

// Each script has every verb and key.
TEST_F(Completion, EveryShellReadsItsScript) {
  for (const std::string shell_name : {"bash", "zsh", "fish"}) {
    const Ran script = folder_.zero("completion " + shell_name);
    EXPECT_EQ(script.status, 0) << script.errors;
    for (const char* verb : {"train", "launch", "convert", "man"}) EXPECT_CONTAINS(script.output, verb);
    for (const Option& option : options()) EXPECT_CONTAINS(script.output, std::string(option.name));
    folder_.write("script", script.output);
    if (!has(shell_name)) continue;
    const Ran read = shell(shell_name + " -n script");
    EXPECT_EQ(read.status, 0) << shell_name << read.errors;
  }
}

TEST_F(Completion, AnotherShellIsRefused) {
  const Ran ran = folder_.zero("completion tcsh");
  EXPECT_EQ(ran.status, 2);
  EXPECT_CONTAINS(ran.errors, "bash");
}

// The page has every key and verb.
TEST_F(Completion, ManReadsTheManualPage) {
  const Ran page = folder_.zero("man");
  EXPECT_EQ(page.status, 0) << page.errors;
  for (const Option& option : options()) {
    EXPECT_CONTAINS(page.output, ".B \\-\\-" + std::string(option.name) + "\n");
    EXPECT_CONTAINS(page.output, environment_name(option));
  }
  for (const char* verb : {"train", "doctor", "convert"})
    EXPECT_CONTAINS(page.output, ".B zero " + std::string(verb) + "\n");
  if (!has("groff")) return;
  folder_.write("zero.1", page.output);
  const Ran read = shell("groff -man -ww -z zero.1");
  EXPECT_EQ(read.errors, "");
}

}  // namespace
}  // namespace zero
