# strata_room(NAME DEPS room… LIBS target… SOURCES file…): the static library of one room. It links
# exactly the rooms it may include, so a forbidden call does not link either.
function(strata_room name)
  cmake_parse_arguments(R "" "" "DEPS;LIBS;SOURCES" ${ARGN})
  if(NOT R_SOURCES)
    add_library(strata_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(strata_${name} STATIC ${R_SOURCES})
    set(scope PUBLIC)
  endif()
  target_link_libraries(strata_${name} ${scope} strata_flags)
  foreach(dep ${R_DEPS})
    target_link_libraries(strata_${name} ${scope} strata_${dep})
  endforeach()
  target_link_libraries(strata_${name} ${scope} ${R_LIBS})
  add_library(strata::${name} ALIAS strata_${name})
endfunction()

# strata_test(ROOM LABEL DEPS room… SOURCES file…): one test binary ROOM_LABEL_test; each of its
# cases is a ctest of that label. Tests find their data through STRATA_SOURCE_DIR and
# STRATA_DEPS_DIR. Target tests_LABEL builds all binaries of a label.
function(strata_test room label)
  cmake_parse_arguments(T "" "TIMEOUT" "DEPS;LIBS;SOURCES" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  set(target ${room}_${label}_test)
  add_executable(${target} ${T_SOURCES})
  target_compile_definitions(${target} PRIVATE STRATA_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             STRATA_DEPS_DIR="${STRATA_DEPS_DIR}")
  target_link_libraries(${target} PRIVATE strata_${room} GTest::gtest GTest::gtest_main)
  foreach(dep ${T_DEPS})
    target_link_libraries(${target} PRIVATE strata_${dep})
  endforeach()
  target_link_libraries(${target} PRIVATE ${T_LIBS})
  if(NOT TARGET tests_${label})
    add_custom_target(tests_${label})
  endif()
  add_dependencies(tests_${label} ${target})
  gtest_discover_tests(${target} TEST_PREFIX "${room}." DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS ${label} TIMEOUT ${T_TIMEOUT})
endfunction()
