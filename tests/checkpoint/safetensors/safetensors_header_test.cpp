#include "zero/checkpoint/safetensors/safetensors_header.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

// A file with this header, valid or not, and `data_bytes` bytes of data.
std::string file_of(std::string_view json, std::size_t data_bytes) {
  const std::uint64_t length = json.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file.append(json).append(data_bytes, '\7');
}

SafetensorsHeader parse(std::string_view file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), std::ssize(file), "model.safetensors");
}

std::string refusal(std::string_view json, std::size_t data_bytes = 0) {
  return message_of<ConfigError>([&] { parse(file_of(json, data_bytes)); });
}

// A header with one tensor 'w' with these fields.
std::string one(std::string_view fields) {
  return "{\"w\":{" + std::string(fields) + "}}";
}

TEST(SafetensorsHeader, EntriesKeepByteOrder) {
  const auto header = parse(file_of(R"({"__metadata__":{"format":"pt","by":"\u00e9"},
      "z":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
      "a":{"data_offsets":[32,33],"shape":[],"dtype":"U8"},
      "m":{"dtype":"I64","shape":[1],"data_offsets":[24,32]}}  )",
                                    33));
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0], (SafetensorsEntry{"z", ElementType::kF32, {2, 3}, 0, 24}));
  EXPECT_EQ(header.entries[1], (SafetensorsEntry{"m", ElementType::kI64, {1}, 24, 32}));
  EXPECT_EQ(header.entries[2], (SafetensorsEntry{"a", ElementType::kU8, {}, 32, 33}));
  EXPECT_EQ(header.metadata, (SafetensorsMetadata{{"format", "pt"}, {"by", "é"}}));
}

TEST(SafetensorsHeader, AFileMayHoldNothing) {
  EXPECT_TRUE(parse(file_of("{}", 0)).entries.empty());
  EXPECT_TRUE(parse(file_of(R"({"__metadata__":{}})", 0)).metadata.empty());
}

TEST(SafetensorsHeader, EmptyTensorsAndScalarsAreLegal) {
  const auto header = parse(file_of(R"({"e":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},
      "f":{"dtype":"F64","shape":[3,0],"data_offsets":[0,0]},
      "s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                                    4));
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0].name, "f");
  EXPECT_EQ(header.entries[1].numel(), 1);
  EXPECT_EQ(header.entries[2].numel(), 0);
}

TEST(SafetensorsHeader, PackedTypesFillWholeBytes) {
  EXPECT_EQ(parse(file_of(one(R"("dtype":"F4","shape":[6],"data_offsets":[0,3])"), 3)).entries[0].size_bytes(), 3);
  EXPECT_EQ(parse(file_of(one(R"("dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3])"), 3)).entries[0].numel(), 4);
  EXPECT_TRUE(
      says(refusal(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2), "F4 [3] has no size in whole bytes"));
}

TEST(SafetensorsHeader, LengthMustFitTheFile) {
  const auto parse_bytes = [](std::uint64_t length, std::string_view rest) {
    std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
    file += rest;
    return message_of<ConfigError>([&] { parse(file); });
  };
  EXPECT_TRUE(says(parse_bytes(std::uint64_t{1} << 62, "{}"), "announce a header of 4611686018427387904 bytes"));
  EXPECT_TRUE(says(parse_bytes(~std::uint64_t{0}, "{}"), "at most 100000000"));
  EXPECT_TRUE(says(parse_bytes(100'000'001, "{}"), "at most 100000000"));
  EXPECT_TRUE(says(parse_bytes(100'000'000, "{}"), "only 2 follow: the file is cut short"));
  EXPECT_TRUE(says(parse_bytes(3, "{}"), "only 2 follow"));
  EXPECT_TRUE(says(parse_bytes(0, ""), "does not start with '{'"));
  EXPECT_TRUE(says(message_of<ConfigError>([] { parse("1234567"); }), "has 7 bytes"));
  EXPECT_TRUE(says(message_of<ConfigError>([] { parse(""); }), "has 0 bytes"));
}

TEST(SafetensorsHeader, ErrorsNameFileAndRemedy) {
  const std::string message = refusal("[]");
  EXPECT_TRUE(message.starts_with("model.safetensors: ")) << message;
  EXPECT_TRUE(says(message, "\n  The file is damaged"));
}

TEST(SafetensorsHeader, MustBeOneJsonObject) {
  EXPECT_TRUE(says(refusal("[1]"), "does not start with '{'"));
  EXPECT_TRUE(says(refusal(" {}"), "does not start with '{'"));
  EXPECT_TRUE(says(refusal("{"), "not JSON, at byte"));
  EXPECT_TRUE(says(refusal("{}{}"), "not JSON"));
  EXPECT_TRUE(says(refusal("{} x"), "not JSON"));
  EXPECT_TRUE(says(refusal("{/* comment */}"), "not JSON"));
  EXPECT_TRUE(says(refusal("{\"\xff\":1}"), "not JSON"));
  EXPECT_TRUE(says(refusal(R"({"\ud800":1})"), "not JSON"));
}

// nlohmann's lexer takes '\0' for the end of its input. Text after a zero byte would be ignored.
TEST(SafetensorsHeader, NothingHidesBehindAZeroByte) {
  EXPECT_TRUE(says(refusal(std::string("{}\0{\"x\":1}", 10)), "zero byte"));
  EXPECT_TRUE(says(refusal(std::string("{}\0", 3)), "zero byte"));
}

TEST(SafetensorsHeader, NoKeyOccursTwice) {
  const std::string w = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_TRUE(says(refusal("{" + w + "," + w + "}", 1), "tensor 'w': occurs twice"));
  EXPECT_TRUE(says(refusal(R"({"__metadata__":{},"__metadata__":{}})"), "occurs twice"));
  EXPECT_TRUE(says(refusal(R"({"__metadata__":{"a":"1","a":"1"}})"), "metadata key 'a' occurs twice"));
  EXPECT_TRUE(says(refusal(one(R"("dtype":"U8","dtype":"U8")")), "tensor 'w': 'dtype' occurs twice"));
  EXPECT_TRUE(says(refusal(one(R"("shape":[1],"shape":[1])")), "tensor 'w': 'shape' occurs twice"));
}

TEST(SafetensorsHeader, EveryFieldIsKnownAndNeeded) {
  EXPECT_TRUE(says(refusal(one("")), "tensor 'w': has no dtype"));
  EXPECT_TRUE(says(refusal(one(R"("dtype":"U8","data_offsets":[0,1])"), 1), "tensor 'w': has no shape"));
  EXPECT_TRUE(says(refusal(one(R"("dtype":"U8","shape":[1])"), 1), "tensor 'w': has no data_offsets"));
  EXPECT_TRUE(
      says(refusal(one(R"("strides":[1])")), "unknown field 'strides'; known are dtype, shape and data_offsets"));
}

TEST(SafetensorsHeader, ValuesHaveTheirTypes) {
  EXPECT_TRUE(says(refusal(R"({"w":3})"), "expected an object for a tensor, found a number"));
  EXPECT_TRUE(says(refusal(R"({"w":null})"), "expected an object for a tensor, found null"));
  EXPECT_TRUE(says(refusal(R"({"w":[[[[[)"), "expected an object for a tensor, found an array"));
  EXPECT_TRUE(says(refusal(one(R"("dtype":["U8"])")), "expected a string for dtype, found an array"));
  EXPECT_TRUE(says(refusal(one(R"("dtype":true)")), "expected a string for dtype, found a boolean"));
  EXPECT_TRUE(says(refusal(one(R"("shape":{})")), "expected an array for shape, found an object"));
  EXPECT_TRUE(says(refusal(one(R"("shape":[[1]])")), "expected an unsigned integer, found an array"));
  EXPECT_TRUE(says(refusal(one(R"("shape":["1"])")), "expected an unsigned integer, found a string"));
  EXPECT_TRUE(says(refusal(one(R"("data_offsets":0)")), "expected an array for data_offsets, found a number"));
  EXPECT_TRUE(says(refusal(R"({"__metadata__":null})"), "expected an object for the metadata, found null"));
  EXPECT_TRUE(says(refusal(R"({"__metadata__":{"a":1}})"), "expected a string for a metadata value, found a number"));
  EXPECT_TRUE(says(refusal(R"({"__metadata__":{"a":{}}})"), "expected a string for a metadata value, found an object"));
  EXPECT_TRUE(says(refusal(one(R"("dtype":"F128")")), "safetensors has no dtype 'F128'"));
}

TEST(SafetensorsHeader, NumbersAreUnsignedIntegersBelow2To63) {
  const auto shape = [](const std::string& size) {
    return refusal(one("\"dtype\":\"U8\",\"shape\":[" + size + "],\"data_offsets\":[0,1]"), 1);
  };
  EXPECT_TRUE(says(shape("-1"), "found the negative number -1"));
  EXPECT_TRUE(says(shape("-0"), "found the negative number"));
  EXPECT_TRUE(says(shape("1.0"), "found the number '1.0'"));
  EXPECT_TRUE(says(shape("1e0"), "found the number '1e0'"));
  EXPECT_TRUE(says(shape("9223372036854775808"), "above 2^63 - 1"));
  EXPECT_TRUE(says(shape("18446744073709551616"), "found the number '18446744073709551616'"));
  EXPECT_TRUE(says(shape("01"), "not JSON"));
}

TEST(SafetensorsHeader, SizesThatOverflowAreRefused) {
  const auto shape = [](const std::string& sizes) {
    return refusal(one("\"dtype\":\"F32\",\"shape\":[" + sizes + "],\"data_offsets\":[0,0]"));
  };
  EXPECT_TRUE(says(shape("4294967296,4294967296"), "has no size"));
  EXPECT_TRUE(says(shape("9223372036854775807"), "has no size"));
  EXPECT_TRUE(says(shape("4294967296,4294967296,0"), "has no size"));
}

TEST(SafetensorsHeader, OffsetsFitTheShape) {
  const auto offsets = [](const std::string& pair) {
    return refusal(one("\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[" + pair + "]"), 16);
  };
  EXPECT_TRUE(says(offsets("0,8"), "data_offsets [0, 8] hold 8 bytes, but F32 [4] needs 16"));
  EXPECT_TRUE(says(offsets("16,0"), "end before they begin"));
  EXPECT_TRUE(says(offsets("0"), "must hold two numbers"));
  EXPECT_TRUE(says(offsets(""), "must hold two numbers"));
  EXPECT_TRUE(says(offsets("0,16,16"), "more than two numbers"));
}

TEST(SafetensorsHeader, TensorsCoverTheBufferExactly) {
  const auto two = [](const std::string& second, std::size_t data_bytes) {
    return refusal(
        R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":)" +
            second + "}}",
        data_bytes);
  };
  EXPECT_TRUE(says(two("[5,9]", 9), "tensor 'b': data_offsets [5, 9] should begin at 4"));
  EXPECT_TRUE(says(two("[5,9]", 9), "there is a hole"));
  EXPECT_TRUE(says(two("[3,7]", 7), "they overlap"));
  EXPECT_TRUE(says(two("[0,4]", 4), "they overlap"));
  EXPECT_TRUE(says(two("[4,8]", 7), "take 8 bytes, but 7 follow the header: the file is cut short"));
  EXPECT_TRUE(says(two("[4,8]", 9), "the file is too long"));
  EXPECT_TRUE(says(refusal("{}", 1), "the file is too long"));
  EXPECT_TRUE(says(refusal(one(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2), "there is a hole"));
}

TEST(SafetensorsHeader, LimitsKeepMemoryBounded) {
  const std::string sizes = "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1";
  EXPECT_TRUE(says(refusal(one("\"shape\":[" + sizes + "]")), "more than 16 dimensions"));
  EXPECT_TRUE(says(refusal("{\"" + std::string(513, 'n') + "\":{}}"), "the name has more than 512 bytes"));
  EXPECT_EQ(parse(file_of("{\"" + std::string(512, 'n') + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1))
                .entries.size(),
            1u);
}

TEST(SafetensorsHeader, MessagesFitOneScreen) {
  EXPECT_LT(refusal("{\"" + std::string(100'000, 'n') + "\":{}}").size(), 500u);
  EXPECT_LT(refusal(one("\"dtype\":\"" + std::string(100'000, 'n') + "\"")).size(), 500u);
  EXPECT_LT(refusal(one("\"shape\":[1" + std::string(100'000, '0') + "]")).size(), 500u);
  EXPECT_LT(refusal("{\"" + std::string(100'000, 'n')).size(), 600u);
  EXPECT_TRUE(says(refusal(R"({"a\u001b[31m\n":3})"), R"('a\x1b[31m\x0a')"));
}

TEST(LayOut, LargeElementsComeFirstThenNames) {
  std::vector<SafetensorsEntry> entries = {{"b", ElementType::kBF16, {3}},
                                           {"z", ElementType::kF32, {2}},
                                           {"u", ElementType::kU8, {1}},
                                           {"a", ElementType::kI32, {}},
                                           {"l", ElementType::kI64, {0}}};
  lay_out(entries, "file");
  std::string order;
  for (const auto& entry : entries) order += entry.name;
  EXPECT_EQ(order, "lazbu");
  EXPECT_EQ(entries[3], (SafetensorsEntry{"b", ElementType::kBF16, {3}, 12, 18}));
  EXPECT_EQ(entries[4].end, 19);
}

TEST(LayOut, RefusesWhatNoReaderWouldTake) {
  const auto refused = [](std::vector<SafetensorsEntry> entries) {
    return message_of<ConfigError>([&] { lay_out(entries, "file"); });
  };
  EXPECT_TRUE(says(refused({{"w", ElementType::kF32, {1}}, {"w", ElementType::kF32, {1}}}), "needs another name"));
  EXPECT_TRUE(says(refused({{"__metadata__", ElementType::kF32, {1}}}), "needs another name"));
  EXPECT_TRUE(says(refused({{std::string(513, 'n'), ElementType::kF32, {1}}}), "needs another name"));
  EXPECT_TRUE(says(refused({{"w", ElementType::kF32, {std::int64_t{1} << 60}}}), "too large"));
  EXPECT_TRUE(says(refused({{"w", ElementType::kF32, {-1}}}), "too large"));
  EXPECT_TRUE(says(refused({{"w", ElementType::kF4, {3}}}), "too large"));
}

TEST(RenderSafetensorsHeader, IsPaddedToEightBytes) {
  for (std::size_t length = 1; length < 10; ++length) {
    std::vector<SafetensorsEntry> entries = {{std::string(length, 'n'), ElementType::kU8, {1}}};
    lay_out(entries, "file");
    const std::string header = render_safetensors_header(entries, {}, "file");
    EXPECT_EQ(header.size() % 8, 0u);
    EXPECT_EQ(header.find_last_not_of(' '), header.rfind('}'));
    EXPECT_GT(header.rfind('}') + 8, header.size() - 1);
  }
}

TEST(RenderSafetensorsHeader, RefusesNonUtf8Names) {
  EXPECT_TRUE(says(message_of<ConfigError>([] {
                     render_safetensors_header({{"\xff", ElementType::kU8, {0}}}, {}, "file");
                   }),
                   "is not UTF-8"));
}

// A rendered header always parses and returns the same tensors, for any printable names.
RC_GTEST_PROP(SafetensorsHeader, WhatIsRenderedIsReadBack, ()) {
  const auto names =
      *rc::gen::container<std::set<std::string>>(rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)));
  std::vector<SafetensorsEntry> entries;
  for (const std::string& name : names) {
    SafetensorsEntry entry{.name = name.substr(0, 512)};
    entry.dtype = static_cast<ElementType>(*rc::gen::inRange(0, static_cast<int>(ElementType::kU64) + 1));
    entry.shape =
        *rc::gen::container<std::vector<std::int64_t>>(*rc::gen::inRange(0, 5), rc::gen::inRange<std::int64_t>(0, 4));
    entry.shape.push_back(8);  // so packed types also have whole bytes
    entries.push_back(entry);
  }
  lay_out(entries, "file");
  const SafetensorsMetadata metadata = {{"format", "pt"}, {"\"\\\n", "\t/é"}};
  std::string file = render_safetensors_header(entries, metadata, "file");
  const auto buffer_begin = static_cast<std::int64_t>(file.size());
  file.append(static_cast<std::size_t>(entries.empty() ? 0 : entries.back().end), 'x');
  const auto header = parse(file);
  // Empty tensors may have equal offsets. The reader then orders them by name.
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  RC_ASSERT(header.entries == entries);
  RC_ASSERT(header.metadata == metadata);
  RC_ASSERT(header.buffer_begin == buffer_begin);
}

// A change of any single byte gives an error or another valid header, never a crash or an entry outside the file.
RC_GTEST_PROP(SafetensorsHeader, AnyFlippedByteIsSafe, ()) {
  std::vector<SafetensorsEntry> entries = {{"w", ElementType::kF32, {2, 2}}, {"b", ElementType::kBF16, {3}}};
  lay_out(entries, "file");
  std::string file = render_safetensors_header(entries, {{"format", "pt"}}, "file") + std::string(22, 'x');
  file[*rc::gen::inRange<std::size_t>(0, file.size())] = *rc::gen::arbitrary<char>();
  try {
    for (const auto& entry : parse(file).entries) {
      RC_ASSERT(entry.begin >= 0);
      RC_ASSERT(entry.end <= 22);
    }
  } catch (const ConfigError&) {
  }
}

}  // namespace
}  // namespace zero
