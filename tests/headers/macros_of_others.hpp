// Macros that other projects define over words of everybody's, in front of our headers in a file of their users: as those projects
// write them, as far as it matters. Ours are compiled behind them.
#pragma once

// Qt, qobjectdefs.h and qforeach.h, unless QT_NO_KEYWORDS is defined.
#define slots
#define signals public
#define emit
#define Q_FOREACH(variable, container) for (variable : container)
#define foreach Q_FOREACH
#define Q_FOREVER for (;;)
#define forever Q_FOREVER

// X11, X.h.
#define None 0L
#define ParentRelative 1L
#define CopyFromParent 0L
#define PointerWindow 0L
#define InputFocus 1L
#define AnyKey 0L
#define AllTemporary 0L
#define CurrentTime 0L
#define NoSymbol 0L
#define KeyPress 2
#define KeyRelease 3
#define ButtonPress 4
#define MotionNotify 6
#define FocusIn 9
#define FocusOut 10
#define Expose 12
#define MapNotify 19
#define GenericEvent 35
#define ShiftMask (1 << 0)
#define LockMask (1 << 1)
#define Button1 1
#define NotifyNormal 0
#define NotifyGrab 1
#define GrabSuccess 0
#define RevertToNone static_cast<int>(None)
#define Success 0
#define BadRequest 1
#define BadValue 2
#define BadMatch 8
#define BadAccess 10
#define BadLength 16
#define InputOutput 1
#define InputOnly 2
#define NotUseful 0
#define WhenMapped 1
#define Always 2
#define Unmap 0
#define Above 0
#define Below 1
#define TopIf 2
#define BottomIf 3
#define Opposite 4
#define RaiseLowest 0
#define LowerHighest 1
#define Unsorted 0
#define YSorted 1
#define Complex 0
#define Nonconvex 1
#define Convex 2
#define FontChange 255
#define GrayScale 1
#define StaticColor 2
#define PseudoColor 3
#define CursorShape 0
#define TileShape 1
#define DontCareState 0
// Xlib.h and Xutil.h.
#define Bool int
#define Status int
#define True 1
#define False 0
#define AllValues 0x000F
#define NoValue 0x0000

// curses, curses.h of ncurses, which takes `move`, `clear`, `erase`, `refresh` and `box` back in C++.
#define OK (0)
#define ERR (-1)
#define getch() wgetch(stdscr)
#define timeout(delay) wtimeout(stdscr, (delay))
#define attron(at) wattron(stdscr, (at))
#define echochar(ch) wechochar(stdscr, (ch))
#define standout() wstandout(stdscr)
#define scrl(n) wscrl(stdscr, (n))

// glog, Abseil and GoogleTest; where Catch2 has come before, these words are its own.
#if !defined(CHECK)
#define CHECK(condition) static_cast<void>(condition)
#define DCHECK(condition) static_cast<void>(condition)
#define LOG(severity) LOG_##severity
#define VLOG(level) LOG(level)
#define INFO 0
#define WARNING 1
#define ERROR 2
#define FATAL 3
#define TEST(suite, name) void suite##_##name()
#define FAIL() static_cast<void>(0)
#define SUCCEED() static_cast<void>(0)
#endif

// windows.h, and whoever is older than std::min. libstdc++ takes them away from what comes before it.
#if !defined(_GLIBCXX_RELEASE)
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#endif

// The system: compilers with GNU's extensions, <sys/sysmacros.h>, <sys/param.h>, <complex.h>.
#undef linux
#define linux 1
#undef unix
#define unix 1
#define i386 1
#define major(dev) gnu_dev_major(dev)
#define minor(dev) gnu_dev_minor(dev)
#define makedev(major_number, minor_number) gnu_dev_makedev(major_number, minor_number)
#define MIN(a, b) (((a) < (b)) ? (a) : (b))
#define MAX(a, b) (((a) > (b)) ? (a) : (b))
#define I (__extension__ 1.0iF)
#define TRUE 1
#define FALSE 0
