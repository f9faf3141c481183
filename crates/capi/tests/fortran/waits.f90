! The Fortran module: waits that end, what runs once, ids that are addresses, other sizes, and system calls.
module initial
    use multigrain
    implicit none
    type(c_ptr) :: counted = c_null_ptr

contains

    subroutine check(condition, line)
        logical, intent(in) :: condition
        integer, intent(in) :: line
        if (condition) return
        print '(a, i0, a, i0)', 'node ', mg_node(), ': check ', line
        error stop 2
    end subroutine

    subroutine count_up() bind(c)
        integer(c_int64_t), pointer :: count
        call c_f_pointer(counted, count)
        count = count + 1
    end subroutine
end module

program waits
    use multigrain
    use initial
    implicit none
    interface
        integer(c_int) function c_pipe(ends) bind(c, name="pipe")
            import
            integer(c_int), intent(out) :: ends(2)
        end function
    end interface
    integer :: me, nodes
    type(c_ptr) :: places

    call mg_init()
    me = mg_node()
    nodes = mg_nodes()
    places = mg_share('places', 64_c_size_t)
    call mg_barrier(0)

    call in_time()
    call of_addresses()
    call one_time()
    call sizes()
    call system_calls()
    call mg_barrier(0)
    call mg_finalize()

contains

    ! An address of its own for each lock and the like.
    function place(i) result(p)
        integer, intent(in) :: i
        type(c_ptr) :: p
        integer(c_int64_t), pointer :: all(:)
        call c_f_pointer(places, all, [8])
        p = c_loc(all(i))
    end function

    subroutine in_time()
        integer(c_int) :: code
        if (me == 0) then
            call check(mg_timedlock(1, mg_after(100d0)), 1)
            call check(.not. mg_cond_timedwait(2, 1, mg_after(0.01d0)), 2)
            call check(.not. mg_sem_timedwait(3, mg_after(0.01d0)), 3)
            call mg_sem_post(3)
            call check(mg_sem_timedwait(3, mg_after(100d0)), 4)
            call check(mg_rwlock_trywrlock(4), 5)
        end if
        call mg_barrier(0)
        if (me /= 0) then
            call check(.not. mg_timedlock(1, mg_after(0.01d0), code), 6)
            call check(code == MG_OK, 7)
            call check(.not. mg_rwlock_tryrdlock(4), 8)
        end if
        call mg_barrier(0)
        if (me == 0) then
            call mg_unlock(1)
            call mg_rwlock_unlock(4)
        end if
        call mg_barrier(0)
        call mg_rwlock_rdlock(4)
        call mg_barrier(0)
        call check(mg_rwlock_tryrdlock(4), 9)
        call mg_rwlock_unlock(4)
        call mg_rwlock_unlock(4)
        if (mg_timedlock(1, mg_timespec(0_c_long, -1_c_long), code)) call check(.false., 10)
        call check(code == MG_EINVAL, 11)
    end subroutine

    subroutine of_addresses()
        integer(c_int) :: code
        integer(c_int64_t), pointer :: turn
        integer, target :: own
        call c_f_pointer(place(8), turn)
        call mg_barrier_at(place(1))
        call mg_lock_at(place(2))
        do while (mod(turn, int(nodes, c_int64_t)) /= me)
            call mg_cond_wait_at(place(3), place(2))
        end do
        turn = turn + 1
        call mg_cond_broadcast_at(place(3))
        call mg_cond_signal_at(place(3))
        call mg_unlock_at(place(2))
        call mg_barrier_at(place(1), nodes)
        call check(turn == nodes, 21)

        call mg_sem_post_at(place(4))
        call mg_barrier(0)
        call mg_sem_wait_at(place(4))
        call mg_barrier(0)
        call check(.not. mg_sem_trywait_at(place(4)), 22)
        call check(.not. mg_sem_timedwait_at(place(4), mg_after(0.01d0)), 23)
        if (me == 0) then
            call check(mg_trylock_at(place(2)), 24)
            call check(.not. mg_cond_timedwait_at(place(3), place(2), mg_after(0.01d0)), 25)
            call mg_unlock_at(place(2))
            call check(mg_timedlock_at(place(2), mg_after(100d0)), 26)
            call check(.not. mg_trylock_at(place(2)), 27)
            call mg_unlock_at(place(2))
            call check(mg_rwlock_trywrlock_at(place(5)), 28)
            call mg_rwlock_unlock_at(place(5))
            call mg_rwlock_wrlock_at(place(5))
            call mg_rwlock_unlock_at(place(5))
        end if
        call mg_barrier(0)
        call mg_rwlock_rdlock_at(place(5))
        call mg_barrier(0)
        call check(mg_rwlock_tryrdlock_at(place(5)), 29)
        call mg_rwlock_unlock_at(place(5))
        call mg_rwlock_unlock_at(place(5))
        call mg_lock_at(c_loc(own), code)
        call check(code == MG_ENOTSHARED, 30)
    end subroutine

    subroutine one_time()
        integer(c_int64_t), pointer :: count
        integer :: i
        counted = mg_share('counted', 8_c_size_t)
        call mg_barrier(0)
        do i = 1, 3
            call mg_once(7, c_funloc(count_up))
            call mg_once_at(place(6), c_funloc(count_up))
        end do
        call c_f_pointer(counted, count)
        call check(count == 2, 41)
        call mg_barrier(0)
    end subroutine

    subroutine sizes()
        integer(c_int8_t), pointer :: bytes(:)
        integer(c_int) :: code
        integer, target :: own
        type(c_ptr) :: p
        p = mg_memalign(256_c_size_t, 100_c_size_t)
        call check(mod(transfer(p, 0_c_intptr_t), 256_c_intptr_t) == 0, 51)
        call check(mg_usable_size(p) >= 100, 52)
        call c_f_pointer(p, bytes, [100])
        bytes = 7_c_int8_t
        p = mg_realloc(p, 100000_c_size_t)
        call check(mg_usable_size(p) >= 100000, 53)
        call c_f_pointer(p, bytes, [100])
        call check(all(bytes == 7), 54)
        call mg_free(p)
        call check(mg_usable_size(c_loc(own), code) == 0 .and. code == MG_ENOTSHARED, 55)
        call check(.not. c_associated(mg_realloc(c_loc(own), 8_c_size_t, code)), 56)
        call check(code == MG_ENOTSHARED, 57)
    end subroutine

    ! Of memory that is elsewhere: node 0 has written it.
    subroutine system_calls()
        integer(c_int8_t), pointer :: from(:), to(:)
        integer(c_int) :: ends(2), code
        type(c_ptr) :: shared, own
        shared = mg_share('bytes', 20000_c_size_t, 4096_c_size_t)
        call mg_barrier(0)
        call c_f_pointer(shared, from, [20000])
        if (me == 0) from = 9_c_int8_t
        call mg_barrier(0)
        own = mg_malloc(20000_c_size_t)
        call c_f_pointer(own, to, [20000])
        call check(c_pipe(ends) == 0, 61)
        call check(mg_write(ends(2), shared, 20000_c_size_t) == 20000, 62)
        call check(mg_read(ends(1), own, 20000_c_size_t) == 20000, 63)
        call check(all(to == 9), 64)
        call check(mg_pread(ends(1), own, 8_c_size_t, 0_c_int64_t, code) == -1 .and. code == MG_ESYS, 65)
        call check(mg_pwrite(ends(2), own, 8_c_size_t, 0_c_int64_t, code) == -1 .and. code == MG_ESYS, 66)
        call check(mg_recv(ends(1), own, 8_c_size_t, 0, code) == -1 .and. code == MG_ESYS, 67)
        call check(mg_send(ends(2), own, 8_c_size_t, 0, code) == -1 .and. code == MG_ESYS, 68)
        call mg_free(own)
    end subroutine
end program
