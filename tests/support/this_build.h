// Values that differ between builds: paths, and whether sanitizers are used. CMake writes them into one file, which
// every test program links. So all other files compile to the same objects in every clone.
#pragma once

namespace zero::built {

extern const char* const kSourceFolder;     // root folder of the clone
extern const char* const kCommand;          // built `zero` program
extern const char* const kFaultWorker;      // tests/faults/programs/worker.cpp
extern const char* const kFaultLeaver;      // tests/faults/programs/leaver.cpp
extern const char* const kFaultSaver;       // tests/faults/programs/saver.cpp
extern const char* const kFaultStruckPass;  // tests/faults/programs/struck_pass.cpp, if there is libtorch

// Whether a sanitizer watches the tests. It then has its own malloc, and its shadow memory grows with the used memory.
extern const bool kSanitized;

}  // namespace zero::built
