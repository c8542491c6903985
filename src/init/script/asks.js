// Runs in every page before its own scripts. What would ask a person is told to the driver; what would open a window and wait
// for one is refused here, in the way in which the page would learn that the person did not want it.
(() => {
    const tell = what => {
        try { __sandglass_stir('asks ' + what + ' (' + location.origin + ')'); } catch { /* it is only news */ }
    };
    const around = (where, name, what, instead) => {
        const own = where && Object.getOwnPropertyDescriptor(where, name);
        if (!own || typeof own.value !== 'function' || !own.configurable) return;
        Object.defineProperty(where, name, { ...own, value: new Proxy(own.value, {
            apply(f, self, args) {
                const asks = typeof what === 'function' ? what(...args) : what;
                if (asks) tell(asks);
                return asks && instead ? instead() : Reflect.apply(f, self, args);
            },
        }) });
    };
    const refuse = (name, why) => () => Promise.reject(new DOMException(why, name));
    const proto = name => globalThis[name] && globalThis[name].prototype;

    around(globalThis.Notification, 'requestPermission', 'notifications');
    around(proto('Geolocation'), 'getCurrentPosition', 'geolocation');
    around(proto('Geolocation'), 'watchPosition', 'geolocation');
    around(proto('MediaDevices'), 'getUserMedia', of => [of && of.video && 'camera', of && of.audio && 'microphone'].filter(x => x).join(', '));
    around(proto('Clipboard'), 'read', 'clipboard');
    around(proto('Clipboard'), 'readText', 'clipboard');
    around(proto('Navigator'), 'requestMIDIAccess', 'midi');
    around(proto('StorageManager'), 'persist', 'persistent storage');
    around(globalThis.IdleDetector, 'requestPermission', 'idle detection');
    around(globalThis, 'queryLocalFonts', 'local fonts');
    around(globalThis, 'getScreenDetails', 'screens');
    around(globalThis, 'print', 'printer', () => undefined);
    around(proto('MediaDevices'), 'getDisplayMedia', 'screen', refuse('NotAllowedError', 'Permission denied'));
    for (const name of ['showOpenFilePicker', 'showSaveFilePicker', 'showDirectoryPicker'])
        around(globalThis, name, 'files', refuse('AbortError', 'The user aborted a request.'));
    for (const name of ['get', 'create'])
        around(proto('CredentialsContainer'), name, of => of && of.publicKey && 'keys', refuse('NotAllowedError', 'The operation either timed out or was not allowed.'));
    for (const [name, what] of [['USB', 'usb'], ['Bluetooth', 'bluetooth'], ['HID', 'hid']])
        around(proto(name), 'requestDevice', what, refuse('NotFoundError', 'No device selected.'));
    around(proto('Serial'), 'requestPort', 'serial port', refuse('NotFoundError', 'No port selected by the user.'));
})();
