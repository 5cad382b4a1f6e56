// shown_predictions(): samples with what a task predicts of each and what is true, as lines to print.
//
//   run.say(shown_predictions(predict_samples(task, data, 5), data, 79));
//
//     daisy  rose   .:-=+*##        // predicted, true, and the sample as the data shows it
//                   .:-=*#%@
//
// Where samples have several lines, an empty one stands between two of them. Local.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "app/data/sample/dataset.h"
#include "app/train/watch/evaluation.h"

namespace zero {

// Without a line break behind the last line. `columns`: the width of all; a sample has at least 16 of them, however long
// the names of classes are.
std::string shown_predictions(std::span<const PredictedSample> samples, const Dataset& data, std::size_t columns);

}  // namespace zero
