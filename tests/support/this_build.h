// What differs between two builds: where they lie, and sanitizers. CMake writes the values into one file that every
// test program is linked with, so that all other files compile to the same objects in every clone.
#pragma once

namespace zero::built {

extern const char* const kSourceFolder;  // the clone's root
extern const char* const kCommand;       // the built `zero`
extern const char* const kFaultWorker;   // tests/faults/worker.cpp
extern const char* const kFaultLeaver;   // tests/faults/leaver.cpp
extern const char* const kFaultSaver;    // tests/faults/saver.cpp

// Whether what is tested is watched by a sanitizer: malloc is its own then, and shadow memory grows with what is
// touched.
extern const bool kSanitized;

}  // namespace zero::built
