# The libraries that users link, made of the modules' object files, and what `cmake --install` puts where: headers,
# libraries, the program, a CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The version is the project's; the header says it again for the preprocessor.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/caisson/version.h)
file(STRINGS include/caisson/version.h version_header REGEX "^#define CAISSON_VERSION")
foreach(expected
    "CAISSON_VERSION_MAJOR ${PROJECT_VERSION_MAJOR}"
    "CAISSON_VERSION_MINOR ${PROJECT_VERSION_MINOR}"
    "CAISSON_VERSION_PATCH ${PROJECT_VERSION_PATCH}"
    "CAISSON_VERSION_STRING \"${PROJECT_VERSION}\"")
  if(NOT "#define ${expected}" IN_LIST version_header)
    message(FATAL_ERROR "include/caisson/version.h does not say '#define ${expected}', as CMakeLists.txt does")
  endif()
endforeach()

get_property(modules GLOBAL PROPERTY CAISSON_MODULES)
list(REMOVE_ITEM modules caisson_cli)
set(objects)
foreach(module IN LISTS modules)
  list(APPEND objects $<TARGET_OBJECTS:${module}>)
endforeach()

# caisson_library(TARGET KIND EXPORTED): one of the libraries, known as Caisson::EXPORTED here and where it is installed.
function(caisson_library target kind exported)
  add_library(${target} ${kind} ${objects})
  add_library(Caisson::${exported} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME caisson EXPORT_NAME ${exported} LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} PUBLIC Boost::headers Boost::json Threads::Threads
    PRIVATE $<BUILD_INTERFACE:PkgConfig::libseccomp>)
  if(CAISSON_INSTALL)
    install(TARGETS ${target} EXPORT CaissonTargets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()

caisson_library(caisson_static STATIC caisson)
# By its plain name, so that whoever links ours needs no pkg-config.
target_link_libraries(caisson_static INTERFACE $<INSTALL_INTERFACE:seccomp>)
if(CAISSON_SHARED)
  caisson_library(caisson_shared SHARED caisson-shared)
  target_link_options(caisson_shared PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/caisson.map")
  set_property(TARGET caisson_shared APPEND PROPERTY LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/caisson.map")
  target_link_libraries(caisson_shared PRIVATE $<BUILD_INTERFACE:caisson_flags>)
endif()

if(NOT CAISSON_INSTALL)
  return()
endif()
if(TARGET caisson)
  install(TARGETS caisson RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET caisson-init)
  install(TARGETS caisson-init RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR})
endif()
install(DIRECTORY include/caisson DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Caisson)
configure_package_config_file(cmake/CaissonConfig.cmake.in CaissonConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(CaissonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/CaissonConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/CaissonConfigVersion.cmake"
  DESTINATION ${package_dir})
install(EXPORT CaissonTargets NAMESPACE Caisson:: DESTINATION ${package_dir})

# The prefix is found from the file's own place, so that an installed tree may be moved.
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
configure_file(cmake/caisson.pc.in caisson.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/caisson.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
