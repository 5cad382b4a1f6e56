// Wrong keys of tables: `zero train` refuses each with status 2, names the key and the remedy, and creates no folder.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cli/training_test.h"
#include "tests/data/make_files.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

struct WrongTable {
  std::string name;
  std::string flags;
  std::vector<std::string> said;
};

void PrintTo(const WrongTable& wrong, std::ostream* out) {
  *out << wrong.name;
}

const std::string kTexts = "--model.name bert --data.kind tsv --data.path two.tsv ";
const std::string kRows = "--model.name linear --data.kind csv --data.path rows.csv ";

std::vector<WrongTable> wrong_tables() {
  return {
      {"TextColumn",
       kTexts + "--data.text_column review",
       {"data.text_column = review", "no column of two.tsv has this name", "its columns are sentence, label"}},
      {"LabelColumn",
       kTexts + "--data.label_column mood",
       {"data.label_column = mood", "no column of two.tsv has this name", "its columns are sentence, label"}},
      {"Labels",
       kTexts + "--data.labels '[\"bad\", \"good\"]'",
       {"data.path = two.tsv:4: column 2 (label)", "the label '2' is none of data.labels: bad, good",
        "mend the label"}},
      {"OneLabel",
       kTexts + "--data.labels good",
       {"data.labels = [\"good\"]", "nothing to choose from", "name two or more"}},
      {"LabelsAndClasses",
       kTexts + "--data.labels '[\"a\", \"b\"]' --data.classes 3",
       {"data.classes = 3", "data.labels names 2 classes", "leave data.classes out"}},
      {"Columns",
       kRows + "--data.columns cost",
       {"data.columns = cost", "no column of rows.csv has this name", "its columns are w, h, price"}},
      {"ColumnsOfTheTarget",
       kRows + "--data.columns price",
       {"data.columns = price", "is the column of the target", "leave it out"}},
      {"ColumnsOfAText", "--data.columns a", {"data.columns = [\"a\"]", "no such key", "use data.kind csv"}},
      {"LabelColumnOfAText", "--data.label_column a", {"data.label_column = \"a\"", "use data.kind tsv or csv"}},
      {"CsvOfTextsWithoutTheirColumn",
       "--model.name bert --data.kind csv --data.path rows.csv",
       {"data.text_column = \"\"", "reads texts", "name the column of the texts"}},
      {"TextColumnForNumbers",
       kRows + "--data.text_column w",
       {"data.text_column = \"w\"", "reads numbers", "leave it out"}},
      {"OpenQuote",
       "--model.name linear --data.kind csv --data.path quote.csv",
       {"data.path = quote.csv:2", "column 2 opens a quote that is never closed", "close it"}},
      {"DamagedToken",
       "--data.kind tokens --data.path damaged.bin",
       {"data.path = damaged.bin", "token 25 (counted from 0) is 2147483653", "16,777,216", "write it again"}},
      {"DropoutsOfAFile",
       "--model.init weights",
       {"model.init = weights", "embd_pdrop = 0.1, attn_pdrop = 0.0", "set model.dropout"}},
  };
}

class BadTable : public TrainingTest, public testing::WithParamInterface<WrongTable> {
 protected:
  BadTable() : TrainingTest("[data]\npath = \"input.txt\"\n[run]\ndir = \"run\"\n") {}
  void SetUp() override {
    TrainingTest::SetUp();
    folder_.write("two.tsv", "sentence\tlabel\nit is good\t1\nit is bad\t0\nso so\t2\nfine\t1\n");
    folder_.write("rows.csv", "w,h,price\n1,2,3\n4,5,6\n7,8,9\n1,1,1\n");
    folder_.write("quote.csv", "1,2,3\n4,\"5,6\n7,8,9\n");
    std::vector<std::int64_t> tokens(400, 7);
    tokens[25] = 2147483653;
    folder_.write("damaged.bin", llmc_header(20240801, 7, 400) + raw_tokens<std::uint32_t>(tokens));
    folder_.write("weights/config.json", R"({"model_type": "gpt2", "attn_pdrop": 0.0})");
  }
};

TEST_P(BadTable, IsRefusedWithARemedy) {
  const Ran ran = folder_.zero("train c.toml " + GetParam().flags, "timeout 250");
  EXPECT_EQ(ran.status, 2) << ran.output << ran.errors;
  for (const std::string& said : GetParam().said) EXPECT_TRUE(says(ran.errors, said));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run"));
}

INSTANTIATE_TEST_SUITE_P(Keys, BadTable, testing::ValuesIn(wrong_tables()),
                         [](const auto& given) { return given.param.name; });

}  // namespace
}  // namespace zero
