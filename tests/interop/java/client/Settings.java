package client;

import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.util.TypeUtils;
import java.lang.reflect.Method;
import java.util.Map;

/** Sets what a producer or a consumer can be told by its setters, whatever a release has of them. */
final class Settings {
    private Settings() {
    }

    /** Call the setter of each given name; one that is not there is an error. */
    static void apply(Object target, JSONObject settings) throws ReflectiveOperationException {
        if (settings == null) {
            return;
        }
        for (Map.Entry<String, Object> setting : settings.entrySet()) {
            Method setter = setter(target.getClass(), setting.getKey());
            setter.invoke(target, TypeUtils.castToJavaBean(setting.getValue(), setter.getParameterTypes()[0]));
        }
    }

    private static Method setter(Class<?> type, String name) throws NoSuchMethodException {
        String wanted = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : type.getMethods()) {
            if (method.getName().equals(wanted) && method.getParameterCount() == 1) {
                return method;
            }
        }
        throw new NoSuchMethodException(type.getSimpleName() + " has no " + wanted);
    }
}
