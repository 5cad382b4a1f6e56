// data_mark(): what a checkpoint remembers of the data, so that a run that goes on with other data says so.
//
//   const std::string then = data_mark(corpus);   // "900 tokens, 100 held out; context 64; xxh3 8f1a..."
//   changed_data(then, data_mark(other))          // "900 tokens, 100 held out then, 1,000 tokens, 100 held out now"
//
// A mark has the sizes of both splits and a checksum of sixteen samples of each: the first, the last, and others between.
// So it costs nothing on files of any size, moves with the files, and finds data that were made anew; not each changed byte.
// Values; Local.
#pragma once

#include <string>
#include <string_view>

#include "app/data/open_data.h"

namespace zero {

std::string data_mark(const Corpus& corpus);

// How the data of two marks differ; empty: not, or one of the marks is. Samples of unequal length are not compared.
std::string changed_data(std::string_view before, std::string_view now);

}  // namespace zero
