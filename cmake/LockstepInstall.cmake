# Installation: headers, the package for find_package(lockstep) and lockstep.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(lockstep_package_dir ${CMAKE_INSTALL_DATADIR}/cmake/lockstep)

install(TARGETS lockstep EXPORT lockstepTargets FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${lockstep_package_dir})

configure_package_config_file(cmake/lockstepConfig.cmake.in lockstepConfig.cmake INSTALL_DESTINATION ${lockstep_package_dir})
write_basic_package_version_file(lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
            ${PROJECT_BINARY_DIR}/lockstepConfig.cmake
            ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
            cmake/LockstepDependencies.cmake
        DESTINATION ${lockstep_package_dir})

# The .pc file finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH lockstep_pc_prefix ${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/lockstep.pc.in lockstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
