# Options, the language level, warnings and the libraries every target shares.
option(CAISSON_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
set(CAISSON_FAULT_POINTS ${CAISSON_TESTS})  # The places where tests/crash cuts in: no build without tests has them.
option(CAISSON_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(CAISSON_BENCHMARKS "Build the benchmarks" OFF)
option(CAISSON_FUZZ "Build the fuzz targets (Clang)" OFF)
option(CAISSON_SHARED "Build the shared library beside the static one" ${PROJECT_IS_TOP_LEVEL})
option(CAISSON_INSTALL "Make the install rules" ${PROJECT_IS_TOP_LEVEL})
option(CAISSON_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
option(CAISSON_FAST_TOOLS "Use ccache and the mold or lld linker where they are installed" ${PROJECT_IS_TOP_LEVEL})
set(CAISSON_SANITIZE "" CACHE STRING "Sanitizers, comma separated: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

if(CAISSON_FAST_TOOLS)
  find_program(CAISSON_CCACHE ccache)
  if(CAISSON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Depend mode: the preprocessor need not run apart, over all of Asio, to look a file up. No directory hash and a
    # base directory: every checkout shares the cache. The sloppiness is what precompiled headers and files as fresh as
    # a clone's need.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        CCACHE_DEPEND=1 CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} "${CAISSON_CCACHE}")
  endif()
  find_program(CAISSON_FAST_LINKER NAMES ld.mold ld.lld)
  if(CAISSON_FAST_LINKER MATCHES "ld\\.(mold|lld)$")
    add_link_options(-fuse-ld=${CMAKE_MATCH_1})
  endif()
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libseccomp REQUIRED IMPORTED_TARGET libseccomp>=2.5.4)

# What every target of ours is compiled with; not exported.
add_library(caisson_flags INTERFACE)
target_compile_options(caisson_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wcast-align -Wnull-dereference -Wformat=2 -Wno-missing-field-initializers -fno-strict-overflow)
# -fPIC for programs too, and not CMake's property, which says -fPIE there: GCC refuses a precompiled header made with
# the other one. Nobody interposes our functions, so that -fPIC may inline as -fPIE does.
target_compile_options(caisson_flags INTERFACE -fPIC -fno-semantic-interposition)
# Paths in debug information and assertions start at the project's root, whatever directory it is built in.
target_compile_options(caisson_flags INTERFACE "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(CAISSON_WERROR)
  target_compile_options(caisson_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's optimiser sees null dereferences, dangling objects, mismatched news in coroutine frames and overruns in moved
  # strings that are not there. Clang, whose warnings of those names come from the source alone, looks for all of them.
  target_compile_options(caisson_flags INTERFACE -Wno-null-dereference -Wno-maybe-uninitialized
    -Wno-mismatched-new-delete -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # A precompiled header without its time of birth, which the compiler cache could not share.
  target_compile_options(caisson_flags INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
endif()
if(CAISSON_FAULT_POINTS)
  target_compile_definitions(caisson_flags INTERFACE CAISSON_FAULT_POINTS)
endif()
if(CAISSON_SANITIZE)
  target_compile_options(caisson_flags INTERFACE -fsanitize=${CAISSON_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(caisson_flags INTERFACE -fsanitize=${CAISSON_SANITIZE})
endif()
if(CAISSON_FUZZ)
  # Coverage for libFuzzer in the library's code; the fuzz targets themselves add its main.
  target_compile_options(caisson_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(caisson_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Boost.Asio as this project uses it. BOOST_ASIO_NO_DEPRECATED keeps the supported Boosts (1.81, 1.83) alike.
add_library(caisson_boost INTERFACE)
target_compile_definitions(caisson_boost INTERFACE BOOST_ASIO_NO_DEPRECATED)
target_link_libraries(caisson_boost INTERFACE Boost::headers Boost::json Threads::Threads)

# One precompiled header for all: Asio's coroutine headers are most of each file's compile time.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/pch.cc" CONTENT "// Empty: only its precompiled header matters.\n")
add_library(caisson_pch OBJECT "${CMAKE_BINARY_DIR}/pch.cc")
target_link_libraries(caisson_pch PRIVATE caisson_flags caisson_boost)
target_include_directories(caisson_pch PRIVATE "${PROJECT_SOURCE_DIR}/cmake")
# In angle brackets, or the generated header would hold this directory's absolute path and no other checkout could share
# the compiler cache.
target_precompile_headers(caisson_pch PRIVATE <pch.h>)
