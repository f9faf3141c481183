! The Fortran module: shared arrays, names, all kinds of synchronization, threads, errors.
module work
    use multigrain
    implicit none

    type, bind(c) :: task
        integer(c_int64_t) :: from, to, sum
    end type

contains

    subroutine check(condition, line)
        logical, intent(in) :: condition
        integer, intent(in) :: line
        if (condition) return
        print '(a, i0, a, i0)', 'node ', mg_node(), ': check ', line
        error stop 2
    end subroutine

    ! A thread's function: adds up a range of numbers under a lock.
    function add(arg) result(returned) bind(c)
        type(c_ptr), value :: arg
        type(c_ptr) :: returned
        type(task), pointer :: mine
        integer(c_int64_t) :: i
        call c_f_pointer(arg, mine)
        do i = mine%from, mine%to
            call mg_lock(5)
            mine%sum = mine%sum + i
            call mg_unlock(5)
        end do
        returned = arg
    end function
end module

program everything
    use multigrain
    use work
    implicit none
    integer, parameter :: rows = 300, columns = 40
    real(c_double), pointer :: grid(:, :)
    integer(c_int64_t), pointer :: sum, element
    integer :: me, nodes, i

    call mg_init()
    me = mg_node()
    nodes = mg_nodes()

    call arrays()
    call locks()
    call threads()
    call errors()
    call mg_barrier(0)
    call mg_finalize()

contains

    subroutine arrays()
        type(c_ptr) :: base
        integer :: column
        call c_f_pointer(mg_share('grid', c_sizeof(0d0) * rows * columns, 4096_c_size_t), grid, [rows, columns])
        call mg_barrier(0)
        call check(all(nint(grid) == 0), 1)
        call mg_barrier(0)
        do column = 1 + me, columns, nodes
            grid(:, column) = column
        end do
        call mg_barrier(0)
        call mg_touch_read(c_loc(grid), c_sizeof(0d0) * rows * columns)
        call check(all([(all(nint(grid(:, column)) == column), column = 1, columns)]), 2)

        if (me == 0) call mg_publish('elements', mg_malloc_array(10_c_size_t, 8_c_size_t))
        base = mg_lookup('elements')
        do i = 1 + me, 10, nodes
            call c_f_pointer(mg_element(base, int(i, c_size_t)), element)
            element = 7 * i
        end do
        call mg_barrier(0)
        do i = 1, 10
            call c_f_pointer(mg_element(base, int(i, c_size_t)), element)
            call check(element == 7 * i, 3)
        end do
        call mg_barrier(0)
        if (me == nodes - 1) call mg_free(base)
    end subroutine

    subroutine locks()
        call c_f_pointer(mg_share('sum', 8_c_size_t), sum)
        call mg_barrier(0)
        do i = 1, 50
            call mg_lock(1)
            sum = sum + i
            call mg_unlock(1)
        end do
        call mg_barrier(0)
        call check(sum == 1275 * nodes, 11)
        call mg_barrier(0)

        ! In turn, by a condition.
        call mg_lock(2)
        do while (mod(sum - 1275 * nodes, int(nodes, c_int64_t)) /= me)
            call mg_cond_wait(3, 2)
        end do
        sum = sum + 1
        call mg_cond_broadcast(3)
        call mg_unlock(2)
        call mg_barrier(0, nodes)
        call check(sum == 1276 * nodes, 12)

        call mg_sem_post(4)
        if (me == 0) then
            do i = 1, nodes
                call mg_sem_wait(4)
            end do
            call check(.not. mg_sem_trywait(4), 13)
            call mg_rwlock_wrlock(6)
            call check(mg_trylock(7), 14)
        end if
        call mg_barrier(0)
        if (me == 1) call check(.not. mg_trylock(7), 15)
        call mg_barrier(0)
        if (me == 0) then
            call mg_unlock(7)
            call mg_rwlock_unlock(6)
        end if
        call mg_rwlock_rdlock(6)
        call mg_barrier(0)
        call mg_rwlock_unlock(6)
        call check(mg_new_id() /= mg_new_id(), 16)
    end subroutine

    subroutine threads()
        type(task), pointer :: mine
        type(c_ptr) :: memory, returned
        integer(c_int64_t) :: thread
        memory = mg_malloc(c_sizeof(task(0, 0, 0)))
        call c_f_pointer(memory, mine)
        do i = 0, nodes - 1
            mine = task(1, 20, 0)
            call mg_thread_create(thread, i, c_funloc(add), memory)
            call mg_thread_join(thread, returned)
            call check(c_associated(returned, memory) .and. mine%sum == 210, 21)
        end do
        call mg_thread_create(thread, MG_ANY_NODE, c_funloc(add), memory)
        call mg_thread_join(thread)
        call mg_free(memory)
    end subroutine

    subroutine errors()
        integer(c_int) :: code
        call mg_unlock(99, code)
        call check(code == MG_EPERM, 31)
        call check(len(mg_strerror(code)) > 10, 32)
        call check(.not. c_associated(mg_malloc(2_c_size_t**60, code)) .and. code /= MG_OK, 33)
        call mg_barrier(0)
    end subroutine
end program
