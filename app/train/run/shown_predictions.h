// shown_predictions(): samples with a task's prediction and the target of each, as lines to print.
//
//   run.say(shown_predictions(predict_samples(task, data, 5), data, 79));
//
//     daisy  rose   .:-=+*##        // prediction, target, and the sample as the data shows it
//                   .:-=*#%@
//
// If samples have several lines, an empty line separates them. Local.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "app/data/sample/dataset.h"
#include "app/train/watch/evaluation.h"

namespace zero {

// The last line has no line break. `columns`: the width of a line. A sample has at least 16 columns, also if the names
// of classes are long.
std::string shown_predictions(std::span<const PredictedSample> samples, const Dataset& data, std::size_t columns);

}  // namespace zero
