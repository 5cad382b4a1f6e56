// ExportCompanions: the files beside the weights of an export, and the rule that no file of a user is replaced.
//
//   ExportCompanions companions("exported");
//   companions.copy("classes.json", "runs/tuned");    // if that folder has the file
//   companions.remove("words.txt");                   // if an earlier export wrote it
//   companions.require_free();                        // before anything is written
//   for (const auto& file : companions.write()) ...
//
// A record in the folder, .zero_export, has the SHA-256 sums of the files that exports wrote. Only a file with its
// recorded sum, or with the bytes of its source, is replaced or removed. Local. Throws IoError.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero::cli {

class ExportCompanions {
 public:
  // Reads the record. The folder need not exist.
  explicit ExportCompanions(std::filesystem::path folder);

  // Copies nothing if `from` is empty, has no such file, or is the folder itself.
  void copy(std::string_view name, const std::filesystem::path& from);
  void remove(std::string_view name);

  // Throws ConfigError under "-o" with the first file that no export wrote.
  void require_free() const;
  // Returns the copies. The folder must exist.
  std::vector<std::filesystem::path> write();

 private:
  bool is_recorded(const std::string& name) const;

  std::filesystem::path folder_;
  std::map<std::string, std::string, std::less<>> sums_;               // by the names of recorded files
  std::vector<std::pair<std::string, std::filesystem::path>> copies_;  // names and sources
  std::vector<std::string> removals_;
};

}  // namespace zero::cli
