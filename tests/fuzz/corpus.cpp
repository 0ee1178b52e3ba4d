// Feeds a target every file of a folder, whatever the compiler: corpus TARGET FOLDER

#include <fstream>
#include <iterator>

#include "target.hpp"

int main(int argc, char** argv) {
    using namespace lockstep::fuzz;
    Target const* const target = argc == 3 ? find_target(argv[1]) : nullptr;
    if (target == nullptr) {
        std::fputs("expected the name of a target, and a folder\n", stderr);
        return 2;
    }
    std::size_t count = 0;
    for (auto const& entry : std::filesystem::directory_iterator(argv[2])) {
        std::ifstream     file(entry.path(), std::ios::binary);
        std::string const bytes{std::istreambuf_iterator<char>(file), {}};
        std::printf("%s\n", entry.path().filename().c_str());
        std::fflush(stdout);  // the last line names the input of a crash
        target->take(bytes);
        ++count;
    }
    std::printf("%zu inputs\n", count);
    return count == 0 ? 1 : 0;
}
