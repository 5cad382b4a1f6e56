#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <tuple>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class Inspect : public testing::Test {
 protected:
  Json json(const std::string& name) const {
    const Ran ran = folder_.zero("inspect --json " + name);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return Json::parse(ran.output, nullptr, false);
  }
  std::string text(const std::string& name) const { return folder_.zero("inspect " + name).output; }
  Folder folder_;
};

std::string safetensors(std::string header, std::size_t num_bytes) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  return out + header + std::string(num_bytes, '\0');
}

TEST_F(Inspect, SafetensorsWithEveryTensor) {
  folder_.write(
      "m.safetensors",
      safetensors(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                  R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]}})",
                  30));
  const Json found = json("m.safetensors");
  EXPECT_EQ(found["kind"], "safetensors");
  EXPECT_EQ(found["numel"], 9);
  EXPECT_EQ(found["bytes"], 30);
  EXPECT_EQ(found["tensors"][0]["shape"], (Json{2, 3}));
  EXPECT_EQ(found["metadata"]["format"], "pt");
  EXPECT_NE(text("m.safetensors").find("[2, 3]"), std::string::npos);
}

TEST_F(Inspect, ADamagedSafetensorsIsRefused) {
  folder_.write("m.safetensors", safetensors(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 20));
  const Ran ran = folder_.zero("inspect m.safetensors");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("m.safetensors"), std::string::npos) << ran.errors;
}

TEST_F(Inspect, TextIsCountedInBytes) {
  folder_.write("input.txt", "abca");
  const Json found = json("input.txt");
  EXPECT_EQ(found["kind"], "text");
  EXPECT_EQ(found["num_tokens"], 4);
  EXPECT_EQ(found["distinct"], 3);
  EXPECT_EQ(found["smallest"], 'a');
  EXPECT_EQ(found["largest"], 'c');
}

TEST_F(Inspect, TokenFilesSayWhichFormat) {
  const std::uint16_t tokens[] = {7, 50256, 7};
  const std::string bytes(reinterpret_cast<const char*>(tokens), sizeof tokens);
  folder_.write("train.bin", bytes);
  EXPECT_EQ(json("train.bin")["format"], "nanoGPT uint16");
  EXPECT_EQ(json("train.bin")["largest"], 50256);
  std::int32_t header[256] = {20240520, 1, 3};
  folder_.write("llm.bin", std::string(reinterpret_cast<const char*>(header), sizeof header) + bytes);
  EXPECT_EQ(json("llm.bin")["format"], "llm.c uint16");
  EXPECT_EQ(json("llm.bin")["num_tokens"], 3);
}

TEST_F(Inspect, IdxLabelsAreCountedByClass) {
  folder_.write("labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x03", 8) + std::string("\x05\x00\x05", 3));
  const Json found = json("labels-idx1-ubyte");
  EXPECT_EQ(found["shape"], Json{3});
  EXPECT_EQ(found["classes"][1]["class"], 5);
  EXPECT_EQ(found["classes"][1]["count"], 2);
}

// The contents are recognised however large the file is.
TEST_F(Inspect, RecognisesCompressedContents) {
  constexpr std::size_t kLabels = 0x300000;  // compressed, more than is read to recognise it
  std::string labels("\0\0\x08\x01\0\x30\0\0", 8);
  std::mt19937 random(1);
  while (labels.size() < 8 + kLabels) labels += static_cast<char>(random() & 0xff);
  folder_.write("labels", labels);
  const Ran ran = folder_.zero("inspect --json labels.gz", "gzip -c labels >labels.gz &&");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  const Json found = Json::parse(ran.output, nullptr, false);
  ASSERT_TRUE(found.is_object()) << ran.output;
  EXPECT_EQ(found["kind"], "idx");
  EXPECT_EQ(found["shape"], Json{kLabels});
  EXPECT_GT(std::filesystem::file_size(folder_.path() / "labels.gz"), std::size_t{2} << 20);
}

// An empty file is refused.
TEST_F(Inspect, ShortFileIsText) {
  for (const std::string bytes : {"a", "ab", "\x1f"}) {
    folder_.write("short.txt", bytes);
    EXPECT_EQ(json("short.txt")["num_tokens"], bytes.size());
  }
  folder_.write("short.txt", "");
  const Ran ran = folder_.zero("inspect short.txt");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("the file is empty"), std::string::npos) << ran.errors;
}

TEST_F(Inspect, CsvShowsItsColumns) {
  folder_.write("houses.csv", "rooms,price\n2,10\n4,30\n");
  const Json found = json("houses.csv");
  EXPECT_EQ(found["rows"], 2);
  EXPECT_EQ(found["columns"][1]["name"], "price");
  EXPECT_EQ(found["columns"][1]["mean"], 20);
}

TEST_F(Inspect, JsonLinesAreNoText) {
  for (const std::string name : {"a.jsonl", "a.txt"}) {
    folder_.write(name, "{\"text\": \"to be\", \"label\": 1}\n{\"text\": \"or not\", \"label\": 0}\n");
    EXPECT_EQ(json(name)["kind"], "json_lines");
    EXPECT_EQ(json(name)["rows"], 2);
    const std::string said = text(name);
    EXPECT_EQ(said.find("kind = \"text\""), std::string::npos) << said;
    EXPECT_NE(said.find("keys: text (string), label (number)"), std::string::npos) << said;
    EXPECT_NE(said.find("no data.kind reads JSON lines"), std::string::npos) << said;
    EXPECT_NE(said.find("zero tokenize a.txt --tokenizer FOLDER"), std::string::npos) << said;
  }
  folder_.write("cut.jsonl", "{\"text\": \"to be\"}\n{\"text\": \"or");
  const Ran ran = folder_.zero("inspect cut.jsonl");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.errors.find("cut.jsonl:2: is not a line of JSON"), std::string::npos) << ran.errors;
}

TEST_F(Inspect, TablesOfTextsSayTheirKeys) {
  folder_.write("sst.tsv", "sentence\tlabel\nfine\t1\nbad\t0\n");
  EXPECT_NE(text("sst.tsv").find("use it with: [data] kind = \"tsv\", path = \"sst.tsv\"\n"), std::string::npos)
      << text("sst.tsv");
  const std::string review(80, 'a');
  folder_.write("r.csv", "review,mood\n\"" + review + ", so\",good\n" + review + ",bad\n");
  EXPECT_NE(text("r.csv").find("kind = \"csv\", path = \"r.csv\", text_column = \"review\", label_column = \"mood\""),
            std::string::npos)
      << text("r.csv");
  folder_.write("iris.csv", "w,kind\n1,a\n2,b\n");
  EXPECT_NE(text("iris.csv").find("the last is the class"), std::string::npos) << text("iris.csv");
  EXPECT_EQ(json("iris.csv")["columns"][1]["different"], 2);
}

TEST_F(Inspect, RefusesFilesOfUnknownKinds) {
  for (const auto& [name, bytes, what] : {std::tuple("a.parquet", std::string("PAR1\1\2\3\4"), "a Parquet file"),
                                          std::tuple("a.zst", std::string("\x28\xb5\x2f\xfd rest"), "zstd-compressed"),
                                          std::tuple("a.png", std::string("\x89PNG\r\n rest"), "a PNG picture")}) {
    folder_.write(name, bytes);
    const Ran ran = folder_.zero(std::string("inspect ") + name);
    EXPECT_EQ(ran.status, 2) << ran.output;
    EXPECT_NE(ran.errors.find(std::string("is ") + what + ", which no data.kind reads"), std::string::npos)
        << ran.errors;
  }
}

// The state of a run is read from unfinished files.
TEST_F(Inspect, ReadsStateFromUnfinishedFiles) {
  folder_.write("run/config.toml", "[train]\nsteps = 7\n[zero]\nstage = 2\n");
  folder_.write("run/metrics.jsonl", "{\"step\": 1, \"loss\": 3.5}\n{\"step\": 2, \"loss\": 2.5}\n{\"step\": 3, \"lo");
  Json found = json("run");
  EXPECT_EQ(found["done"], false);
  EXPECT_EQ(found["stage"], 2);
  EXPECT_EQ(found["last_metrics"]["step"], 2) << "the half line at the end does not count";
  EXPECT_NE(text("run").find("  step 2 of 7, loss 2.5000\n"), std::string::npos) << text("run");
  folder_.write("run/report.json", R"({"val_loss": 1.5, "losses": [9,8,7,6,5,4,3,2,1]})");
  found = json("run");
  EXPECT_EQ(found["done"], true);
  EXPECT_EQ(found["report"]["val_loss"], 1.5);
  EXPECT_NE(text("run").find("  loss 1.0000, val_loss 1.5000 after 9 steps\n"), std::string::npos) << text("run");
}

// Lines of events have the step of a checkpoint; damaged lines and a lone half line are left out.
TEST_F(Inspect, SkipsEventsAndDamagedLines) {
  const std::string step = "{\"step\": 512, \"loss\": 2.5}\n";
  folder_.write("run/config.toml", "[train]\nsteps = 2000\n");
  folder_.write("run/metrics.jsonl",
                step + "{\"step\": 500, \"event\": \"rewound\", \"loss\": 93.1}\nnot JSON\n{\"t\"");
  EXPECT_NE(text("run").find("  step 512 of 2000, loss 2.5000\n"), std::string::npos) << text("run");
  folder_.write("run/metrics.jsonl", "{\"step\": 1, \"lo");
  const Ran half = folder_.zero("inspect run");
  EXPECT_EQ(half.status, 0) << half.errors;
  EXPECT_FALSE(json("run").contains("last_metrics"));
}

TEST_F(Inspect, DamagedReportIsNotedOnly) {
  folder_.write("run/config.toml", "[train]\nsteps = 7\n");
  folder_.write("run/metrics.jsonl", "{\"step\": 2, \"loss\": null}\n");
  folder_.write("run/report.json", "{\"steps\": 3");
  const std::string said = text("run");
  for (const char* words :
       {"a run, not done", "  step 2 of 7, loss not finite\n", "  report.json is damaged: it is left out\n"})
    EXPECT_NE(said.find(words), std::string::npos) << said;
  EXPECT_EQ(json("run")["done"], false);
}

TEST_F(Inspect, ServedRunCountsItsWorkers) {
  folder_.write("run/config.toml", "[train]\nsteps = 1\n");
  folder_.write("run/report.json",
                R"({"losses": [3, null], "world": 1, "served": {"servers": 1, "workers": 3}, "transport": "mpi"})");
  EXPECT_NE(text("run").find("  1 server and 3 workers (mpi): "), std::string::npos) << text("run");
  EXPECT_NE(text("run").find("  loss not finite after 2 steps\n"), std::string::npos) << text("run");
}

// Names and metadata come from outside.
TEST_F(Inspect, TensorNamesCannotCommandTerminal) {
  folder_.write("m.safetensors", safetensors(R"({"__metadata__":{"k\u001b[2J":"v\nw"},)"
                                             R"("a\u001b]0;x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                             4));
  const std::string said = text("m.safetensors");
  EXPECT_EQ(said.find('\x1b'), std::string::npos) << said;
  EXPECT_NE(said.find("  k [2J = v w\n"), std::string::npos) << said;
  EXPECT_NE(said.find("a ]0;x\n"), std::string::npos) << said;
}

// Runs are described in readable units and numbers.
TEST_F(Inspect, DescribesRunsReadably) {
  folder_.write("run/config.toml", "[train]\nsteps = 1\n");
  folder_.write("run/report.json",
                R"({"losses": [3], "world": 1, "transport": "in_process", "step_s_median": 83.5, "tokens_per_second": 2,
                    "skipped_steps": 1, "rewinds": 2})");
  const std::string one = text("run");
  for (const char* words :
       {", 1 step, global batch", "after 1 step\n", "  1 rank (in_process): 1.39 min a step, 2 tokens/s\n",
        "  1 skipped step\n", "  2 rewinds\n"})
    EXPECT_NE(one.find(words), std::string::npos) << words << one;
  folder_.write("run/report.json", R"({"losses": [3, 2], "world": 2, "transport": "mpi", "step_s_median": 0.0005})");
  EXPECT_NE(text("run").find("  2 ranks (mpi): 0.5 ms a step"), std::string::npos) << text("run");
}

TEST_F(Inspect, OneOfAThingIsSingular) {
  folder_.write("one.safetensors", safetensors(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  folder_.write("one.txt", "a");
  folder_.write("one.csv", "rooms,price\n2,10\n");
  EXPECT_NE(text("one.safetensors").find("safetensors, 1 tensor, 1 element, "), std::string::npos);
  EXPECT_NE(text("one.txt").find(", 1 token, "), std::string::npos) << text("one.txt");
  EXPECT_NE(text("one.csv").find("CSV, 1 row, 2 columns; "), std::string::npos) << text("one.csv");
}

TEST_F(Inspect, ReportsMissingAndForeignFolders) {
  folder_.write("empty/x", "");
  EXPECT_NE(folder_.zero("inspect empty").errors.find("not a run"), std::string::npos);
  const Ran none = folder_.zero("inspect none.bin");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.errors.find("no such file or folder"), std::string::npos) << none.errors;
  std::filesystem::create_directories(folder_.path() / "part/checkpoints/step-00000004");
  folder_.write("part/checkpoints/step-00000004/manifest.json", "");
  EXPECT_NE(folder_.zero("inspect part").errors.find("name one of them, such as part/checkpoints/step-00000004"),
            std::string::npos);
  folder_.write("runs/a/config.toml", "");
  EXPECT_NE(folder_.zero("inspect runs").errors.find("name one of these runs, such as runs/a"), std::string::npos);
}

TEST_F(Inspect, DescribesAFolderOfWeights) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  folder_.write("exported/model.safetensors", safetensors(header, 24));
  folder_.write("exported/config.json", R"({"model_type": "gpt2"})");
  const std::string said = text("exported");
  EXPECT_TRUE(said.starts_with("exported: weights without their run, 1 tensor, 6 elements, 24 B in 1 file\n")) << said;
  EXPECT_NE(said.find("config.json: a gpt2 of transformers"), std::string::npos) << said;
  EXPECT_NE(said.find("[model] init = \"exported\""), std::string::npos) << said;
  const Json found = json("exported");
  EXPECT_EQ(found["kind"], "weights");
  EXPECT_EQ(found["files"], Json{"exported/model.safetensors"});
}

}  // namespace
}  // namespace zero
