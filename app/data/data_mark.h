// data_mark(): a description of the data for a checkpoint; a resumed run can then report that the data changed.
//
//   const std::string then = data_mark(corpus);   // "900 tokens, 100 held out; context 64; xxh3 8f1a..."
//   changed_data(then, data_mark(other))          // "900 tokens, 100 held out then, 1,000 tokens, 100 held out now"
//
// A mark has the sizes of both splits and a checksum of sixteen samples of each, at equal distances from the first to
// the last. So it is cheap for files of any size, and does not depend on their paths. It detects data that were
// generated again, but not every changed byte. Values; Local.
#pragma once

#include <string>
#include <string_view>

#include "app/data/open_data.h"

namespace zero {

std::string data_mark(const Corpus& corpus);

// Returns the difference between the data of two marks. It is empty if they are equal, or if a mark is empty. Samples
// of unequal length are not compared.
std::string changed_data(std::string_view before, std::string_view now);

}  // namespace zero
