package h2

import "encoding/binary"

// preface is what a client sends first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

const (
	frameHeader = 9
	// maxFrame is the largest payload taken, and the protocol's default.
	maxFrame = 16 << 10
)

// Types of frames: RFC 9113, section 6.
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameRST          = 3
	frameSettings     = 4
	framePushPromise  = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8
	frameContinuation = 9
)

// Flags of frames. Acknowledgements have the bit of END_STREAM.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings: RFC 9113, section 6.5.2.
const (
	settingMaxStreams    = 3
	settingInitialWindow = 4
	settingMaxFrame      = 5
	settingMaxHeaders    = 6
)

// errorCode is why a stream or a connection ends: RFC 9113, section 7.
type errorCode uint32

const (
	codeNo          errorCode = 0x0
	codeProtocol    errorCode = 0x1
	codeFlowControl errorCode = 0x3
	codeClosed      errorCode = 0x5
	codeFrameSize   errorCode = 0x6
	codeRefused     errorCode = 0x7
	codeCancel      errorCode = 0x8
	codeCompression errorCode = 0x9
	codeCalm        errorCode = 0xb
)

// frame is a frame whose payload is a part of the connection's read buffer.
type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f *frame) has(flag byte) bool { return f.flags&flag != 0 }

// parseHeader reads a frame's header, which h has in full.
func parseHeader(h []byte) (length int, f frame) {
	length = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	return length, frame{kind: h[3], flags: h[4], stream: binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1)}
}

// appendHeader appends a frame's header.
func appendHeader(to []byte, length int, kind, flags byte, stream uint32) []byte {
	return append(to, byte(length>>16), byte(length>>8), byte(length), kind, flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// unpadded returns the payload of DATA and HEADERS without their padding; ok is false where it is longer than the payload.
func (f *frame) unpadded() (payload []byte, ok bool) {
	if !f.has(flagPadded) {
		return f.payload, true
	}
	if len(f.payload) == 0 {
		return nil, false
	}
	pad := int(f.payload[0])
	if pad >= len(f.payload) {
		return nil, false
	}
	return f.payload[1 : len(f.payload)-pad], true
}

func appendSetting(to []byte, id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(to, id), value)
}

func appendWindowUpdate(to []byte, stream uint32, n int) []byte {
	to = appendHeader(to, 4, frameWindowUpdate, 0, stream)
	return binary.BigEndian.AppendUint32(to, uint32(n))
}

func appendReset(to []byte, stream uint32, code errorCode) []byte {
	to = appendHeader(to, 4, frameRST, 0, stream)
	return binary.BigEndian.AppendUint32(to, uint32(code))
}

func appendGoAway(to []byte, last uint32, code errorCode) []byte {
	to = appendHeader(to, 8, frameGoAway, 0, 0)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(to, last), uint32(code))
}
