// A user's mistakes, from the command line to the bytes of a file. Each ends with status 2 and one screen that names
// the key or file, its content and the remedy. No file is changed.
//
// Each row is one mistake. It runs in a folder with a good configuration (c.toml), good data, and files that are each
// broken in one way. If a row has `toml`, that text is written to bad.toml.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/data/tokens/byte_pair_tokenizer.h"
#include "tests/cli/changed_config.h"
#include "tests/cli/command.h"
#include "tests/cli/small_weights.h"
#include "tests/support/occurrences.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

constexpr int kScreen = 24;  // lines

struct Mistake {
  std::string name;  // subject of a claim: "AnUnknownKey"
  std::string arguments;
  std::vector<std::string> says;
  std::string toml = "";
  std::string environment = "";
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.arguments;
}

constexpr const char* kGood = R"([model]
layers = 1
width = 8
heads = 2
context = 16
[data]
path = "input.txt"
[train]
steps = 5
batch = 2
[run]
dir = "run"
threads = 1
)";

// A mistake in the first of `keys` of a configuration file. The refusal must name the line of this key.
Mistake in_file(std::string name, const std::vector<std::string>& keys, std::vector<std::string> says,
                const std::string& flags = "", std::string environment = "") {
  std::string toml = changed(kGood, keys);
  const std::string key = keys.front().substr(0, keys.front().find(" = "));
  says.push_back(fmt::format("zero train: bad.toml:{}: {}", line_of(toml, key), key));
  return {std::move(name), "bad.toml" + flags, std::move(says), std::move(toml), std::move(environment)};
}

using namespace small_weights;

// The name of a byte in a JSON string of GPT-2's vocabulary.
std::string byte_name(int byte) {
  const std::string name = to_alphabet(std::string(1, static_cast<char>(byte)));
  return name == "\"" || name == "\\" ? "\\" + name : name;
}

class PreparedFolder : public Folder {
 public:
  PreparedFolder() {
    write("c.toml", kGood);
    std::string text;
    while (text.size() < 4000) text += "all the world's a stage. ";
    write("input.txt", text);
    write("empty.txt", "");
    write("short.txt", "too short");
    write("prose.txt", std::string(200, 'a'));
    std::vector<std::uint16_t> tokens(4000);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i % 200);
    write("tokens.bin", bytes_of(tokens));
    tokens.resize(400);
    tokens[30] = 400;
    write("beyond.bin", bytes_of(tokens));
    // An llm.c file that announces more tokens than it has.
    std::vector<std::int32_t> header(256);
    header[0] = 20240520;
    header[1] = 1;
    header[2] = 4000;
    write("cut.bin", bytes_of(header) + "only a few");
    write("ragged.tsv", "sentence\tlabel\nit is good\t1\nit is bad\n");
    write("classes.tsv", "sentence\tlabel\nit is good\t1\nit is bad\tbad\n");
    write("stray.tsv", "sentence\tlabel\nit is good\t1\nit is bad\t0\nit is odd\t900000\nit is fine\t1\nso so\t0\n");
    write("two.tsv", "sentence\tlabel\nit is good\t1\nit is bad\t0\nit is fine\t1\nso so\t0\n");
    write("words.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nit\nis\ngood\nbad\n");
    write("same.tsv", "sentence\tlabel\nit is good\t1\nit is fine\t1\n");
    write("third.tsv", "sentence\tlabel\nit is good\t1\nit is odd\t2\n");
    write("pictures/cat/1.png", "\x89PNG\r\n\x1a\nand then nothing of a picture");
    write_tokenizer("tok", "a b\n");
    write_tokenizer("broken", "a b\na c\n");  // merges to "ac", which is not a token
    write("rows.csv", "1,2,3\n4,5,6\n7,not a number,9\n");
    write("good.csv", "1,2,3\n4,5,6\n7,8,9\n2,3,4\n5,6,7\n8,9,1\n");
    write("cut.safetensors", safetensors("{" + entry("a", "4", 0, 16) + "}", 10));
    write("overlap.safetensors", safetensors("{" + entry("a", "4", 0, 16) + "," + entry("b", "4", 8, 24) + "}", 24));
    write("huge.safetensors", safetensors("{" + entry("a", "4", 0, 16) + "}", 16, std::uint64_t{1} << 62));
    write("other.safetensors", safetensors("{" + entry("a", "4", 0, 16) + "}", 16));
    write("three_hundred.safetensors", file_of(kGpt2Weights));
    write("thirty.safetensors", file_of(kBertWeights));
    write("text.safetensors", "this is no safetensors file, but a letter to the reader");
    write("held/config.toml", kGood);
    write("held/metrics.jsonl", "{}\n");
  }

  // GPT-2's two files: a token for each byte, and "ab".
  void write_tokenizer(const std::string& name, const std::string& merges) const {
    std::string vocab = "{";
    for (int i = 0; i < 256; ++i) vocab += fmt::format("\"{}\": {}, ", byte_name(i), i);
    write(name + "/vocab.json", vocab + "\"ab\": 256}");
    write(name + "/merges.txt", "#version: 0.2\n" + merges);
  }

  // Every file and folder, with contents and time of the last change. The command's own output goes to dot files.
  std::map<std::string, std::string> state() const {
    std::map<std::string, std::string> found;
    for (const auto& at : std::filesystem::recursive_directory_iterator(path())) {
      const std::string name = std::filesystem::relative(at.path(), path()).string();
      if (name.starts_with(".")) continue;
      const auto changed = std::filesystem::last_write_time(at.path()).time_since_epoch().count();
      found[name] = fmt::format("{} {}", changed, at.is_regular_file() ? read(name) : "folder");
    }
    return found;
  }
};

class BadInput : public testing::TestWithParam<Mistake> {
 protected:
  static void expect_refusal(const Mistake& mistake) {
    const PreparedFolder folder;
    if (!mistake.toml.empty()) folder.write("bad.toml", mistake.toml);
    const auto before = folder.state();
    const Ran ran = folder.zero("train " + mistake.arguments, mistake.environment + " timeout 100");
    if (!ZERO_CAN_TRAIN && ran.errors.find("this verb needs libtorch") != std::string::npos)
      GTEST_SKIP() << "this build has no libtorch, and the part with libtorch finds this mistake";
    EXPECT_EQ(ran.status, 2) << ran.errors << ran.output;
    for (const std::string& text : mistake.says)
      EXPECT_NE(ran.errors.find(text), std::string::npos) << "'" << text << "' is not in\n" << ran.errors;
    constexpr std::string_view kSpeaker = "zero train: ";
    EXPECT_EQ(ran.errors.find(kSpeaker), ran.errors.rfind(kSpeaker)) << "twice:\n" << ran.errors;
    EXPECT_LE(count_lines(ran.errors + ran.output), kScreen) << ran.output << ran.errors;
    EXPECT_TRUE(folder.state() == before) << "files were changed";
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "run")) << "the run folder was made";
  }
};

TEST_P(BadInput, StatusTwoFitsOneScreen) {
  expect_refusal(GetParam());
}

class BadInputOfARankSlow : public BadInput {
 protected:
  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  }
};
// No stack trace is printed, and no file is changed.
TEST_P(BadInputOfARankSlow, StatusTwoFitsOneScreen) {
  expect_refusal(GetParam());
}

using Mistakes = std::vector<Mistake>;

// Mistakes that the command itself finds, before libtorch is loaded or a rank is started.
Mistakes of_configuration() {
  return {
      {"AnUnknownKeyGetsTheNearOne",
       "bad.toml --data.path input.txt",
       {"bad.toml:3", "train.stepss", "unknown key", "did you mean 'train.steps'?"},
       "# a comment\n[train]\nstepss = 5\n"},
      {"AnUnknownFlagGetsTheNearOne",
       "c.toml --train.stepss 5",
       {"command line: train.stepss", "did you mean 'train.steps'?"}},
      {"AnUnknownVariableGetsTheNearOne",
       "c.toml",
       {"ZERO_TRAIN_STEPSS", "did you mean ZERO_TRAIN_STEPS?"},
       "",
       "ZERO_TRAIN_STEPSS=5"},
      {"AnUnknownSectionGetsTheNearOne",
       "bad.toml",
       {"bad.toml:2: trian.steps", "did you mean 'train.steps'?"},
       "[trian]\nsteps = 5\n"},
      {"AnotherToolsKeyGetsOurs", "c.toml --train.max_grad_norm 1", {"train.max_grad_norm", "train.clip"}},
      {"AWrongTypeNamesWhatIsAllowed",
       "bad.toml",
       {"bad.toml:2", "train.steps", "a string does not fit here", "allowed: an integer"},
       "[train]\nsteps = \"many\"\n"},
      {"AFractionOfAStepIsAWrongType", "c.toml --train.steps 2.5", {"train.steps = 2.5", "not a whole number"}},
      {"OutOfRangeNamesTheRange", "c.toml --train.clip -1", {"train.clip = -1", "out of range", "0 or more"}},
      {"ABetaOfOneIsOutOfRange", "c.toml --optimizer.betas [0.9,1.0]", {"optimizer.betas", "out of range"}},
      {"StageFourNamesTheStages", "c.toml --zero.stage 4", {"zero.stage = 4", "out of range", "allowed: 0, 1, 2, 3"}},
      {"ANanInAFileIsRefused", "bad.toml", {"bad.toml:2", "lr = nan", "not a finite"}, "[optimizer]\nlr = nan\n"},
      {"ANanFlagIsRefused", "c.toml --optimizer.eps nan", {"optimizer.eps = nan", "not a finite number"}},
      {"AnInfinityIsRefused", "c.toml --train.clip inf", {"train.clip = inf", "not a finite number"}},
      {"TomlThatIsNoneNamesLineAndColumn", "bad.toml", {"bad.toml:1:", "not TOML"}, "[train\nsteps = 5\n"},
      {"AMissingConfiguration", "none.toml", {"none.toml", "No such file"}},
      {"AFolderAsConfiguration", "held", {"held", "a folder"}},
      {"ABatchThatDoesNotGiveTheGlobalBatch",
       "c.toml --train.global_batch 12 --train.accumulate 2 -n 2",
       {"train.global_batch = 12", "train.batch 2 x train.accumulate 2 x world 2 = 8"}},
      {"AGlobalBatchThatDoesNotDivide", "c.toml --train.global_batch 7 -n 2", {"global_batch = 7", "use 4 or 8"}},
      {"AWorldOfZero", "c.toml -n 0", {"-n = 0", "allowed: 1 to"}},
      {"AWorldThatIsNoNumber", "c.toml -n two", {"-n"}},
      {"HeadsThatDoNotDivideTheWidth",
       "c.toml --model.heads 3",
       {"model.heads = 3", "model.width = 8", "use 1, 2, 4, 8"}},
      {"AWarmupLongerThanTheRun",
       "c.toml --schedule.warmup 9",
       {"schedule.warmup = 9", "train.steps = 5", "--schedule.warmup 1"}},
      {"APatienceWithoutEvaluations",
       "c.toml --train.patience 3 --train.eval_every 0",
       {"train.patience = 3", "train.eval_every = 0", "set train.eval_every"}},
      {"APatienceBelowZero",
       "c.toml --train.patience -1",
       {"train.patience = -1", "out of range", "an integer from 0"}},
      {"ABestCheckpointWithoutCheckpoints",
       "c.toml --checkpoint.keep_best loss --checkpoint.every 0",
       {"checkpoint.keep_best = \"loss\"", "saves no checkpoints", "set checkpoint.every"}},
      {"ABestCheckpointByAnUnknownMeasure",
       "c.toml --checkpoint.keep_best perplexity",
       {"checkpoint.keep_best = perplexity", "none, loss, accuracy"}},
      {"NoData", "bad.toml", {"data.path", "no data is set"}, "[train]\nsteps = 5\n"},
      {"MissingData", "c.toml --data.path none.txt", {"none.txt", "no such file", "looked in"}},
      {"EmptyData", "c.toml --data.path empty.txt", {"empty.txt", "an empty file"}},
      {"AMissingFileOfWeights", "c.toml --model.init none.safetensors", {"none.safetensors", "no such file"}},
      {"ARunFolderThatIsAFile", "c.toml --run.dir input.txt", {"run.dir", "input.txt", "not a folder"}},
      {"ARunFolderBelowAFile", "c.toml --run.dir input.txt/run", {"run.dir", "not a folder"}},
      {"AnUnknownTransport",
       "c.toml --comm.transport carrier_pigeon",
       {"comm.transport = carrier_pigeon", "shared_memory, mpi, gloo"}},
      {"DropoutOnThreadsThatShareAGenerator",
       "c.toml --comm.transport in_process -n 2 --model.dropout 0.1",
       {"model.dropout = 0.1", "use comm.transport shared_memory"}},
      {"CheckpointsOfAModelWithoutBlocks",
       "c.toml --train.checkpoint_activations true --model.name linear --data.kind csv --data.path rows.csv",
       {"train.checkpoint_activations = true", "has no blocks to recompute", "set it to false"}},
      {"AnAverageOfWeightsWithDelayedUpdates",
       "bad.toml --data.path input.txt",
       {"bad.toml:4: zero.delayed_update = true", "train.ema = 0.99", "use either"},
       "[train]\nema = 0.99\n[zero]\ndelayed_update = true\n"},
      {"ADelayedUpdateOfARuleWithSums",
       "c.toml --zero.delayed_update true --optimizer.name lamb",
       {"zero.delayed_update = true", "lamb needs sums over whole parameters"}},
      {"ADiskThatIsNamedTwice",
       "c.toml --zero.disk '[\"held\", \"./held\"]'",
       {"zero.disk = ", "./held is named twice", "a folder on each disk"}},
      {"TextAsTokens",
       "c.toml --data.kind tokens --data.path prose.txt",
       {"data.path = prose.txt", "begins with text", "data.kind = \"text\""}},
      {"AMatrixRuleOfVectors",
       "c.toml --optimizer.name muon --optimizer.group '[{parameters = \"*.bias\", rule = \"muon\"}]'",
       {"optimizer.group = *.bias", "needs matrices", "leave the rule out"}},
      {"MoreRanksThanARunHas",
       "c.toml -n 2 --run.max_restarts 1 --run.min_ranks 3",
       {"run.min_ranks = 3", "more than the 2 ranks"}},
      {"ASwitchThatIsNeitherTrueNorFalse",
       "c.toml --train.checkpoint_activations yes",
       {"train.checkpoint_activations = yes", "allowed: true or false"}},
      {"OffloadedActivationsWithoutCheckpoints",
       "c.toml --train.offload_activations host",
       {"train.offload_activations = \"host\"", "set train.checkpoint_activations = true"}},
      {"ActivationsOnADiskThatIsNotNamed",
       "c.toml --train.checkpoint_activations true --train.offload_activations disk",
       {"train.offload_activations = \"disk\"", "set zero.disk"}},
      {"FractionsThatAreMoreThanAll",
       "c.toml --zero.optimizer '{host = 0.7, disk = 0.7}'",
       {"zero.optimizer = {host = 0.7, disk = 0.7}", "they sum to 1.4, which is more than 1"}},
      {"FractionsThatAreLessThanAll",
       "c.toml --zero.optimizer '{device = 0.2, host = 0.5}'",
       {"zero.optimizer = {device = 0.2, host = 0.5}", "they sum to 0.7, not 1"}},
      {"AKeyOfAnotherModel",
       "c.toml --model.kv_heads 2",
       {"model.kv_heads = 2", "model.name = \"gpt2\" has no such key", "use model.name llama"}},
      {"AKeyOfAnotherModelWithItsDefault",
       "bad.toml --data.path input.txt",
       {"bad.toml:3: model.heads = 4", "model.name = \"lstm\" has no such key", "use model.name gpt2, llama or bert"},
       "[model]\nname = \"lstm\"\nheads = 4\n"},
      {"AFlagOfAnotherModelWithItsDefault",
       "c.toml --model.kv_heads 0",
       {"command line: model.kv_heads = 0", "model.name = \"gpt2\" has no such key"}},
      {"AKeyOfAnotherKindOfData",
       "c.toml --data.augment shift",
       {"data.augment = \"shift\"", "data.kind = \"text\" has no such key", "use data.kind mnist"}},
      {"AKeyOfAnotherUpdateRule",
       "bad.toml --data.path input.txt",
       {"bad.toml:2: optimizer.momentum = 0.9", "optimizer.name = \"adamw\" has no such key",
        "use optimizer.name sgd or muon", "\"adamw\" has lr, betas, eps, weight_decay and group"},
       "[optimizer]\nmomentum = 0.9\n"},
      {"AKeyOfAnotherUpdateRuleWithItsDefault",
       "bad.toml --data.path input.txt",
       {"bad.toml:3: optimizer.momentum = 0.0", "optimizer.name = \"lamb\" has no such key"},
       "[optimizer]\nname = \"lamb\"\nmomentum = 0.0\n"},
      {"AKeyOfAnotherSchedule",
       "bad.toml --data.path input.txt",
       {"bad.toml:3: schedule.power = 3", "schedule.name = \"linear\" has no such key",
        "use schedule.name polynomial; \"linear\" has warmup and min_lr"},
       "[schedule]\nname = \"linear\"\npower = 3.0\n"},
      {"ALowestRateOfAConstantSchedule",
       "bad.toml --data.path input.txt --schedule.min_lr 1e-5",
       {"command line: schedule.min_lr = 1e-05", "schedule.name = \"constant\" has no such key"},
       "[schedule]\nname = \"constant\"\n"},
      {"ALossScaleWithoutFp16",
       "bad.toml --data.path input.txt",
       {"bad.toml:3: train.loss_scale = 1024", "train.dtype = \"bf16\" has no such key", "use train.dtype fp16"},
       "[train]\ndtype = \"bf16\"\nloss_scale = 1024.0\n"},
      {"AModelThatDoesNotReadTheData",
       "c.toml --model.name bert",
       {"data.kind = \"text\"", "use data.kind tsv, csv or word_order"}},
      {"StepsAndEpochsAtOnce",
       "c.toml --train.steps 5 --train.epochs 2",
       {"train.epochs = 2", "train.steps = 5 is also given", "set only one of the two"}},
      {"ALabelSmoothedAway", "c.toml --train.label_smoothing 1", {"train.label_smoothing = 1", "out of range"}},
      {"AMissingVocabulary",
       "c.toml --model.name bert --data.kind tsv --data.path ragged.tsv --data.vocab none.txt",
       {"data.vocab", "none.txt", "no such file"}},
      {"ACaseThatIsNone",
       "c.toml --data.lower_case never",
       {"data.lower_case = never", "a string does not fit here", "allowed: \"auto\", true or false"}},
      {"ACaseWithoutAVocabulary",
       "c.toml --model.name bert --data.kind tsv --data.path ragged.tsv --data.lower_case false",
       {"data.lower_case = false", "without data.vocab", "give data.vocab"}},
      {"AnArgumentTooMany", "c.toml d.toml", {"d.toml", "too many"}},
  };
}

// Mistakes that are found when the data, the weights or the machine are read.
Mistakes of_files() {
  const std::string tokens = "data.kind = \"tokens\"";
  const auto bert = [](const std::string& key, const std::string& data = "data.kind = \"tsv\"") {
    return std::vector<std::string>{key, "model.name = \"bert\"", "data.kind = \"tsv\"", data};
  };
  return {
      in_file("DataThatIsTooShort", {"data.path = \"short.txt\""},
              {"data.path = short.txt", "too short: 8 of its 9 tokens are in this split", "at least 18"}),
      in_file("AnAccuracyOfALanguageModel", {"checkpoint.keep_best = \"accuracy\""},
              {"checkpoint.keep_best = accuracy", "a gpt2 has no classes on this data", "use loss"}),
      in_file("AValidationSplitThatIsTooShort", {"data.validation = \"short.txt\""},
              {"data.validation = short.txt", "too short: 9 tokens"}),
      in_file("ATokenFileThatIsCutOff", {"data.path = \"cut.bin\"", tokens}, {"cut.bin", "announces 4000 tokens"}),
      {"ACellThatIsNoNumber",
       "bad.toml",
       {"bad.toml:5: data.path = rows.csv:3", "not a number"},
       "[model]\nname = \"linear\"\n[data]\nkind = \"csv\"\npath = \"rows.csv\"\n[run]\ndir = \"run\"\n"},
      in_file("ATableOfTextsThatIsRagged", bert("data.path = \"ragged.tsv\""),
              {"data.path = ragged.tsv:3", "has 1 column; the first line has 2"}),
      in_file("AClassThatIsNoNumber", bert("data.path = \"classes.tsv\""),
              {"data.path = classes.tsv:3: column 2 (label)", "the label 'bad' is a word"}),
      in_file("AVocabularyWithoutItsPieces", bert("data.vocab = \"input.txt\"", "data.path = \"ragged.tsv\""),
              {"input.txt"}),
      {"NumbersWhoseLabelsAreSmoothed",
       "bad.toml",
       {"bad.toml:7: train.label_smoothing = 0.1", "numbers, not classes"},
       "[model]\nname = \"linear\"\n[data]\nkind = \"csv\"\npath = \"good.csv\"\n[train]\nlabel_smoothing = 0.1\n"
       "[run]\ndir = \"run\"\n"},
      in_file("AVocabularySmallerThanAToken", {"model.vocab = 150", tokens, "data.path = \"tokens.bin\""},
              {"model.vocab = 150", "token 150 of tokens.bin is 150", "at least 200"}),
      {"MuonForAModelWithoutMatrices",
       "bad.toml",
       {"bad.toml:7: optimizer.name = muon", "no hidden matrix", "use adamw"},
       "[model]\nname = \"linear\"\n[data]\nkind = \"csv\"\npath = \"good.csv\"\n[optimizer]\nname = \"muon\"\n"
       "[run]\ndir = \"run\"\n"},
      in_file("AStrayLabelThatWouldWidenTheClassifier", bert("data.path = \"stray.tsv\""),
              {"data.path = stray.tsv:4", "the label 900000 would make 900001 classes, of which 3 have samples"}),
      in_file("AClassThatIsHeldOutAndNeverTrained", bert("data.validation = \"third.tsv\"", "data.path = \"two.tsv\""),
              {"data.validation = third.tsv:3", "the label 2 is held out", "labels up to 1"}),
      in_file("ALabelThatIsNoneOfTheClasses",
              {"data.path = \"stray.tsv\"", "model.name = \"bert\"", "data.kind = \"tsv\"", "data.classes = 2"},
              {"data.path = stray.tsv:4", "the label 900000 is none of data.classes = 2"}),
      in_file("LabelsThatAreAllTheSame", bert("data.path = \"same.tsv\""),
              {"data.path = same.tsv:2", "all labels are the same", "give samples of two classes or more"}),
      in_file("HeldOutDataThatIsTrainedOn", bert("data.validation = \"two.tsv\"", "data.path = \"two.tsv\""),
              {"data.validation = two.tsv", "data.path also reads it", "set other data"}),
      in_file("ATokenizerThatDoesNotFitTheWeights",
              {"model.init = \"three_hundred.safetensors\"", tokens, "data.path = \"tokens.bin\"",
               "data.tokenizer = \"tok\""},
              {"model.init = three_hundred.safetensors", "transformer.wte.weight has 300 tokens", "tok/vocab.json",
               "has 257"}),
      in_file("AVocabularyThatDoesNotFitTheWeights",
              {"model.init = \"thirty.safetensors\"", "model.name = \"bert\"", "data.kind = \"tsv\"",
               "data.path = \"two.tsv\"", "data.validation = 0.5", "data.vocab = \"words.txt\""},
              {"model.init = thirty.safetensors",
               "bert.embeddings.word_embeddings.weight has 30 tokens, and words.txt (data.vocab) has 9",
               "use the tokenizer or vocabulary of these weights"}),
      in_file("ATokenThatTheTokenizerDoesNotHave",
              {"data.tokenizer = \"tok\"", tokens, "data.path = [\"tokens.bin\", \"beyond.bin\"]"},
              {"data.tokenizer = tok", "it has 257 tokens, and token 30 of beyond.bin is 400",
               "set data.tokenizer to the tokenizer"}),
      in_file("AHeldOutTokenThatTheTokenizerDoesNotHave",
              {"data.tokenizer = \"tok\"", tokens, "data.path = \"tokens.bin\"", "data.validation = \"beyond.bin\""},
              {"data.tokenizer = tok", "token 30 of beyond.bin is 400"}),
      in_file("ATokenThatTheWeightsDoNotHave",
              {"model.init = \"three_hundred.safetensors\"", tokens, "data.path = \"beyond.bin\""},
              {"model.init = three_hundred.safetensors",
               "transformer.wte.weight has 300 tokens, and token 30 of beyond.bin is 400, so the data has 401"}),
      {"ADamagedPicture",
       "bad.toml",
       {"bad.toml:5: data.path = pictures/cat/1.png", "a damaged PNG", "replace this picture"},
       "[model]\nname = \"cnn\"\n[data]\nkind = \"images\"\npath = \"pictures\"\n[run]\ndir = \"run\"\n"},
      in_file("MergesThatNameAnUnknownToken", {"data.tokenizer = \"broken\"", tokens, "data.path = \"tokens.bin\""},
              {"data.tokenizer = broken/merges.txt", "line 3 names the unknown token \"ac\""}),
      in_file("WeightsThatAreCutOff", {"model.init = \"cut.safetensors\""},
              {"cut.safetensors", "the file is cut short"}),
      in_file("WeightsThatOverlap", {"model.init = \"overlap.safetensors\""}, {"overlap.safetensors", "they overlap"}),
      in_file("AHeaderOfTwoToTheSixtyTwoBytes", {"model.init = \"huge.safetensors\""},
              {"huge.safetensors", "4611686018427387904", "at most 100000000"}),
      in_file("WeightsThatAreText", {"model.init = \"text.safetensors\""},
              {"text.safetensors", "not a safetensors file"}),
      in_file("WeightsOfAnotherModel", {"model.init = \"other.safetensors\""},
              {"other.safetensors", "has no transformer.", "zero inspect"}),
      in_file("ARunFolderThatHoldsARun", {"run.dir = \"held\""},
              {"run.dir = held", "holds a run already", "--overwrite"}),
      // A path at which even root cannot create a folder.
      in_file("AFolderThatCannotBeWritten", {"run.dir = \"/proc/zero/run\""}, {"run.dir = ", "/proc", "may write to"}),
      in_file(
          "ATransportBetweenGpusAlone", {"comm.transport = \"nccl\""},
          {"comm.transport = \"nccl\"", "it moves bytes between GPUs", "use run.device cuda, or another transport"}),
      in_file("ASumByNcclWithoutNccl", {"zero.reduce = \"nccl\""},
              {"zero.reduce = \"nccl\"", "NCCL can sum only units that it moves between GPUs", "or leave it out"}),
      in_file("ABudgetBelowTheMinimumSaysTheMinimum", {"zero.device_memory = \"1KiB\""},
              {"zero.device_memory = 1.00 KiB", "too small by", "stage 3 on 1 rank needs at least"}),
      in_file("ABudgetBelowTheMinimumSaysTheNextCheaperStage",
              {"zero.device_memory = \"1KiB\"", "zero.stage = 1", "comm.transport = \"in_process\""},
              {"zero.device_memory", "stage 1 on 2 ranks needs at least", "stage 2 needs"}, " -n 2"),
      in_file("ABudgetOfTheHostBelowWhatLiesThere", {"zero.host_memory = \"1KiB\"", "zero.optimizer = {host = 1.0}"},
              {"zero.host_memory = 1.00 KiB", "too small by", "a rank needs"}),
      in_file("ABudgetOfTheDiskBelowWhatLiesThere",
              {"zero.disk_memory = \"1KiB\"", "zero.optimizer = {disk = 1.0}", "zero.disk = \"held\""},
              {"zero.disk_memory = 1.00 KiB", "too small by", "a rank places"}),
      in_file("StatesOnADiskThatIsNotNamed", {"zero.disk = []", "zero.optimizer = {disk = 1.0}"},
              {"zero.disk = []", "no folder is set", "with a folder on each disk"}),
      in_file("AFolderOfADiskThatIsMissing", {"zero.disk = \"none\"", "zero.optimizer = {disk = 1.0}"},
              {"zero.disk = none", "no such folder"}),
      in_file("AFileInPlaceOfAFolderOfADisk", {"zero.disk = \"input.txt\"", "zero.optimizer = {disk = 1.0}"},
              {"zero.disk = input.txt", "is not a folder"}),
      in_file("AnOperatorWithoutFp16", {"train.dtype = \"fp16\""},
              {"train.dtype = fp16", "libtorch has no such operator", "Gelu", "use bf16 or fp32"}, "",
              "LD_PRELOAD=" +
                  (std::filesystem::path(built::kCommand).parent_path().parent_path() / "tests/no_fp16/libgelu.so")
                      .string()),
  };
}

// Mistakes on several ranks under a launcher. An error that all ranks have is printed once and passed on.
Mistakes of_several_ranks() {
  const auto seen_by_ranks = {"ATableOfTextsThatIsRagged",
                              "AClassThatIsNoNumber",
                              "MuonForAModelWithoutMatrices",
                              "ADamagedPicture",
                              "WeightsThatAreCutOff",
                              "MergesThatNameAnUnknownToken",
                              "ATokenizerThatDoesNotFitTheWeights",
                              "AnOperatorWithoutFp16"};
  Mistakes mistakes{
      {"ABudgetBelowTheMinimumOnSixRanks",
       "c.toml -n 6 --zero.device_memory 1KiB",
       {"zero train: zero.device_memory = ", "needs at least"}},
      {"AHeldRunFolderOnTwoRanks", "c.toml -n 2 --run.dir held", {"zero train: run.dir = held: holds a run already"}},
      in_file("AFolderThatCannotBeWrittenOnTwoRanks", {"run.dir = \"/proc/zero/run\""}, {"run.dir = /proc/zero/run"},
              " -n 2"),
  };
  const Mistakes alone = of_files();
  for (const char* name : seen_by_ranks) {
    mistakes.push_back(*std::ranges::find(alone, std::string(name), &Mistake::name));
    mistakes.back().name += "OnTwoRanks";
    mistakes.back().arguments += " -n 2";
  }
  return mistakes;
}

// A dry run refuses the mistakes that the run refuses.
Mistakes of_dry_runs() {
  Mistakes mistakes = of_files();
  for (Mistake& mistake : mistakes) mistake.arguments += " --dry-run";
  return mistakes;
}

const auto kNames = [](const testing::TestParamInfo<Mistake>& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Configuration, BadInput, testing::ValuesIn(of_configuration()), kNames);
INSTANTIATE_TEST_SUITE_P(Files, BadInputOfARankSlow, testing::ValuesIn(of_files()), kNames);
INSTANTIATE_TEST_SUITE_P(DryRuns, BadInputOfARankSlow, testing::ValuesIn(of_dry_runs()), kNames);
INSTANTIATE_TEST_SUITE_P(SeveralRanks, BadInputOfARankSlow, testing::ValuesIn(of_several_ranks()), kNames);

class PreparedFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  }
};

// The ranks are started by hand, as a wrong script would, so only they can find that their keys differ.
TEST_F(PreparedFolderTest, DisagreeingRanksNameRankAndKeys) {
  const PreparedFolder folder;
  const auto before = folder.state();
  const std::string ranks =
      fmt::format("WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={} ZERO_RUN_ID=bad-{} ",
                  20000 + getpid() % 10000, getpid());
  const std::string other = fmt::format(
      "{{ env {} RANK=1 LOCAL_RANK=1 ZERO_TRAIN_STEPS=7 timeout 100 '{}' train c.toml >.other 2>&1 & }}; other=$!;",
      ranks, built::kCommand);
  const Ran ran = folder.zero("train c.toml; first=$?; wait $other; echo $? >.status; exit $first",
                              other + " env " + ranks + "RANK=0 LOCAL_RANK=0 timeout 100");
  EXPECT_EQ(ran.status, 2) << ran.errors;
  EXPECT_EQ(folder.read(".status"), "2\n");
  for (const std::string& said : {ran.errors, folder.read(".other")}) {
    for (const char* part : {"rank 1: differs from rank 0's: ", "train.steps = 7, not 5"})
      EXPECT_NE(said.find(part), std::string::npos) << said;
    EXPECT_LE(count_lines(said), kScreen);
  }
  EXPECT_TRUE(folder.state() == before) << "files were changed";
}

TEST_F(PreparedFolderTest, TrainsWithoutAMistake) {
  const PreparedFolder folder;
  const Ran ran = folder.zero("train c.toml --comm.transport in_process -n 2");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "run" / "report.json"));
}
}  // namespace
}  // namespace zero
