package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead/fairlead/pkg/config"
)

// Stdin is the path that means standard input.
const Stdin = "-"

// pipeTimeout is how long a file may take that is a pipe, as a shell makes them of <(…).
const pipeTimeout = 5 * time.Second

// Read returns the content of a configuration file, at most config.MaxBytes. Errors name the path and what to do. It does not
// wait for ever for who might write a pipe: a watch would see no further change.
func Read(path string) ([]byte, error) {
	if path == Stdin {
		return read(os.Stdin, "standard input")
	}
	if path == "" {
		return nil, errors.New("the path of the configuration file is empty; name a file")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var cause *fs.PathError
		switch {
		case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(path, "-"):
			return nil, fmt.Errorf("%s: no such file; it looks like a flag, so the value of the flag before it is missing", path)
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s: no such file; check the path and the mount", path)
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("%s: no permission; make it readable for the user that fairlead runs as", path)
		case errors.As(err, &cause):
			return nil, fmt.Errorf("%s: %w", path, cause.Err)
		}
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read only
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a directory; name the file in it", path)
	case !info.Mode().IsRegular():
		return piped(f, path)
	}
	return read(f, path)
}

// piped reads a pipe or a device. A pipe that nobody writes is at its end at once, since it was opened without waiting.
func piped(f *os.File, path string) ([]byte, error) {
	_ = f.SetReadDeadline(time.Now().Add(pipeTimeout)) // devices that know none do not make anybody wait
	data, err := read(f, path)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%s: is no plain file, and did not end within %v; name a plain file", path, pipeTimeout)
	case err == nil && len(data) == 0:
		return nil, fmt.Errorf("%s: is no plain file, and nobody writes to it; name a plain file", path)
	}
	return data, err
}

func read(from io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, config.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: reading after %d bytes: %w", name, len(data), err)
	}
	if len(data) > config.MaxBytes {
		return nil, fmt.Errorf("%s: longer than %d bytes, the bound of a configuration", name, config.MaxBytes)
	}
	return data, nil
}
